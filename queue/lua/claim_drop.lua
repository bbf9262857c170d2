-- claim_drop: say that the caller does not answer a request any more, and tell who waits
-- for that.
--
-- KEYS[5], KEYS[6]: as in claim_take
-- ARGV[13] the request's name, ARGV[14] its id; "" if the caller knows nothing of it
local name = ARGV[own]
local holder, id, asker = match(call('HGET', KEYS[5], name) or '', '^(%S+) (%S+) %S+ (%S+)$')
if holder == me and (ARGV[own + 1] == '' or ARGV[own + 1] == id) then
  call('HDEL', KEYS[5], name)
  call('ZREM', KEYS[6], name)
  if asker ~= '-' then call('PUBLISH', ARGV[9] .. asker, 'free ' .. name .. ' ' .. me) end
end
line.settle()
return {}
