-- job_tell: ask the owner of a job to cancel it.
--
-- ARGV[13] id
-- returns  DONE, or STALE if nobody has it
local id = ARGV[own]
local job = line.lookup(id) or line.running(id)
if job then
  call('PUBLISH', ARGV[9] .. job.owner, 'cancel ' .. id)
else
  verdict = STALE
end
line.settle()
return line.reply()
