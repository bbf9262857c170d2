-- line_rejoin: put the caller's tickets back in line under their first arrival,
-- whatever the limits. Those that are there, in line or running, are left alone.
--
-- ARGV[12] and what follows: id, class, arrival, cost, key of each
for i = own, #ARGV, 5 do
  local id, t = ARGV[i], {class = ARGV[i + 1], arrival = tonumber(ARGV[i + 2]), cost = tonumber(ARGV[i + 3]), key = ARGV[i + 4]}
  t.purse = t.class .. ' ' .. t.key
  if not lookup(id) and not running(id) then
    books.arrival = math.max(books.arrival, t.arrival)
    insert(id, t)
  end
end
settle()
return reply()
