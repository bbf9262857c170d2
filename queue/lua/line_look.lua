-- line_look: tell everything.
--
-- returns  more: {now, gate, cutoff, typical, tickets, slots, accounts}; tickets is a
--          flat list of id and record; slots is one of slot, fence, state, owner, id,
--          clean, since, purse, came, cost, asked;
--          accounts is one of purse, slot time used, last end
settle()
local berths, used = {}, {}
for _, s in ipairs(slots) do
  add(berths, s)
  for _, value in ipairs({s.clean, int(s.since), s.purse, int(s.came), int(s.cost), s.asked}) do berths[#berths + 1] = value end
end
for purse, a in pairs(accounts()) do
  used[#used + 1] = purse
  used[#used + 1] = int(a.used)
  used[#used + 1] = int(a.last)
end
more = {now, books.gate, cutoff, books.typical, call('HGETALL', TICKETS), berths, used}
return reply()
