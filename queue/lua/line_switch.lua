-- line_switch: open or close the gate, and call the other owners to look at it.
--
-- ARGV[13] the gate
books.gate = tonumber(ARGV[own])
books.version = books.version + 1
line.settle()
line.tell('', 'look')
return line.reply()
