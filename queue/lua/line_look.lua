-- line_look: tell everything.
--
-- returns  more: {now, paused, tickets, slots}; tickets is a flat list of id and
--          record in order; slots is one of slot, fence, state, owner, id, clean, since
settle()
local ids, list, berths = call('ZRANGE', LINE, 0, -1), {}, {}
for from = 1, #ids, 1000 do
  local part = {unpack(ids, from, math.min(from + 999, #ids))}
  for i, record in ipairs(call('HMGET', TICKETS, unpack(part))) do
    list[#list + 1] = part[i]
    list[#list + 1] = record
  end
end
for _, s in ipairs(slots) do
  add(berths, s)
  berths[#berths + 1] = s.clean
  berths[#berths + 1] = int(s.since)
end
more = {now, books.paused, list, berths}
return reply()
