-- line_rejoin: put the caller's tickets back in line under their first arrival,
-- whatever the limits. Those that are there, in line or running, are left alone.
--
-- ARGV[13] and what follows: id, class, arrival, cost, key, user, prefer of each
for i = own, #ARGV, 7 do
  local id = ARGV[i]
  local t = {id = id, class = ARGV[i + 1], arrival = tonumber(ARGV[i + 2]), cost = tonumber(ARGV[i + 3]), key = ARGV[i + 4], user = ARGV[i + 5], prefer = tonumber(ARGV[i + 6])}
  t.purse = t.class .. ' ' .. t.key
  if not line.lookup(id) and not line.running(id) then
    books.arrival = math.max(books.arrival, t.arrival)
    line.insert(t)
  end
end
line.settle()
return line.reply()
