-- slot_keep: say that the job of a slot that has been asked for goes on.
--
-- ARGV[13] slot
-- ARGV[14] fence by which the caller holds it
-- returns  DONE, or STALE if the caller does not hold it by this fence
--          or it has not been asked for
local s = line.held(ARGV[own], tonumber(ARGV[own + 1]))
if s and s.asked == ASKED then
  s.asked = KEPT
else
  verdict = STALE
end
line.settle()
return line.reply()
