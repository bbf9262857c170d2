-- line_rank: tell positions.
--
-- ARGV[12] and what follows: ids
-- returns  more: place and work of each, place 1 for the next, 0 for one not in line
settle()
for i = own, #ARGV do more[#more + 1], more[#more + 2] = stand(ARGV[i]) end
tell_running()
return reply()
