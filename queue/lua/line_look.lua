-- line_look: tell everything.
--
-- returns  more: {now, gate, cutoff, typical, tickets, slots, accounts, users}; tickets is a
--          flat list of id and record; slots is one of slot, fence, state, owner, id,
--          clean, since, purse, came, cost, asked, user;
--          accounts is one of purse, slot time used, last end, when it came, 1 if its users
--          are told apart; users is one of purse, user, slot time used, last end, when he came
line.settle()
local berths, used, users = {}, {}, {}
for _, s in ipairs(slots) do
  line.add(berths, s)
  for _, value in ipairs({s.clean, line.int(s.since), s.purse, line.int(s.came), line.int(s.cost), s.asked, s.user}) do berths[#berths + 1] = value end
end
local all = call('HGETALL', BOOKS)
for i = 1, #all, 2 do
  local kind, field = match(all[i], '^([au]):(.*)$')
  local _, apart, time, _, _, came, last = cmsgpack.unpack(all[i + 1])
  if kind == 'a' then
    for _, value in ipairs({field, time, last, came, apart and 1 or 0}) do used[#used + 1] = value end
  elseif kind == 'u' then
    local length, rest = match(field, '^(%d+) (.*)$')
    for _, value in ipairs({string.sub(rest, 1, length), string.sub(rest, length + 2), time, last, came}) do users[#users + 1] = value end
  end
end
more = {now, books.gate, cutoff, books.typical, call('HGETALL', TICKETS), berths, used, users}
return line.reply()
