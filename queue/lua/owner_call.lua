-- owner_call: pass a message on.
--
-- ARGV[13] the owner it is for, empty for all others
-- ARGV[14] the message
line.settle()
line.tell(ARGV[own], ARGV[own + 1])
return line.reply()
