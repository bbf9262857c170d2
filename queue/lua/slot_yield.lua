-- slot_yield: put the job of a slot back in line, where it stood.
--
-- ARGV[13] slot
-- ARGV[14] fence by which the caller holds it
-- returns  DONE with arrival, or STALE if the caller does not hold it by this fence
--          or it has not been asked for
local s = line.held(ARGV[own], tonumber(ARGV[own + 1]))
if not s or s.asked ~= ASKED then
  verdict = STALE
elseif s.state == BUSY then
  local class, key = match(s.purse, '^(%d+) (.*)$')
  line.insert({id = s.id, class = class, arrival = s.came, cost = s.cost, key = key, user = s.user, prefer = 0, purse = s.purse})
  arrival = s.came
  s.state, s.id, s.user, s.purse, s.since, s.cost = ABORTING, '', '', NOBODY, now, 0
end
line.settle()
return line.reply()
