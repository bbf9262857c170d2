-- line_rank: tell positions.
--
-- ARGV[13] and what follows: ids
-- returns  more: place and work of each, place 1 for the next, 0 for one not in line
settle()
for i = own, #ARGV do
  local t, at, cost = lookup(ARGV[i]), 0, 0
  if t then
    local a = leaf(t)
    at, cost = stand(a, rank(a, t))
  end
  more[#more + 1], more[#more + 2] = at, cost
end
tell_running()
return reply()
