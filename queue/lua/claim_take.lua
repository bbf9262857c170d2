-- claim_take: say that the caller answers a request, unless another proxy does that is
-- alive; then that one is asked whether its client is still there.
--
-- KEYS[5]  claims  hash, a request's name -> "owner id body asker" of who answers it; asker
--                  is who waits for the end of that, "-" if nobody does
-- KEYS[6]  claimed zset, the names by when they are forgotten
-- ARGV[13] the request's name, ARGV[14] its id, ARGV[15] the hash of its body
-- ARGV[16] how long it is remembered
-- returns  {} if it is the caller's now, else owner, id and body of the other, and when
--          that one's job arrived, 0 if it has no place
local CLAIMS, CLAIMED = KEYS[5], KEYS[6]
local name, id, body = ARGV[own], ARGV[own + 1], ARGV[own + 2]
for _, old in ipairs(call('ZRANGEBYSCORE', CLAIMED, '-inf', now, 'LIMIT', 0, 10)) do
  call('HDEL', CLAIMS, old)
  call('ZREM', CLAIMED, old)
end
line.settle()
local holder, theirs, what = match(call('HGET', CLAIMS, name) or '', '^(%S+) (%S+) (%S+) (%S+)$')
if holder and holder ~= me and owners[holder] then
  call('HSET', CLAIMS, name, holder .. ' ' .. theirs .. ' ' .. what .. ' ' .. me)
  call('PUBLISH', ARGV[9] .. holder, 'asked ' .. name .. ' ' .. me)
  local job = line.lookup(theirs)
  local s = not job and line.running(theirs)
  return {holder, theirs, what, job and job.arrival or s and s.came or 0}
end
call('HSET', CLAIMS, name, me .. ' ' .. id .. ' ' .. body .. ' -')
call('ZADD', CLAIMED, line.int(now + ARGV[own + 3]), name)
return {}
