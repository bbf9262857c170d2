-- line_leave: take tickets out of the line.
--
-- ARGV[13] and what follows: their ids
line.withdraw({unpack(ARGV, own)})
line.settle()
return line.reply()
