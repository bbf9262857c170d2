-- line_leave: take tickets out of the line.
--
-- ARGV[13] and what follows: their ids
withdraw({unpack(ARGV, own)})
settle()
return reply()
