-- line_rank: tell positions.
--
-- ARGV[12] and what follows: ids
-- returns  more: the position of each, 1 for the next, 0 for one not in line
settle()
for i = own, #ARGV do more[i - own + 1] = position(ARGV[i]) end
return reply()
