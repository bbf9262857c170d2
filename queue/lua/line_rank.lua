-- line_rank: tell positions.
--
-- ARGV[13] and what follows: ids
-- returns  more: place and work of each, place 1 for the next, 0 for one not in line
line.settle()
for i = own, #ARGV do
  local t, at, cost = line.lookup(ARGV[i]), 0, 0
  if t then
    local a = line.leaf(t)
    at, cost = line.stand(a, line.rank(a, t))
  end
  more[#more + 1], more[#more + 2] = at, cost
end
line.tell_running()
return line.reply()
