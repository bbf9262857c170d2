-- line_look: tell everything.
--
-- returns  more: {now, paused, cutoff, typical, tickets, slots, accounts}; tickets is a
--          flat list of id and record; slots is one of slot, fence, state, owner, id,
--          clean, since, purse; accounts is one of purse and slot time used
settle()
local ids, list, berths, used = call('ZRANGE', LINE, 0, -1), {}, {}, {}
for from = 1, #ids, 1000 do
  local part = {unpack(ids, from, math.min(from + 999, #ids))}
  for i, record in ipairs(call('HMGET', TICKETS, unpack(part))) do
    list[#list + 1] = part[i]
    list[#list + 1] = record
  end
end
for _, s in ipairs(slots) do
  add(berths, s)
  for _, value in ipairs({s.clean, int(s.since), s.purse}) do berths[#berths + 1] = value end
end
for purse, a in pairs(accounts()) do
  used[#used + 1] = purse
  used[#used + 1] = int(a.used)
end
more = {now, books.paused, cutoff, books.typical, list, berths, used}
return reply()
