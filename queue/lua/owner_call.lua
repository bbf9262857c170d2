-- owner_call: pass a message on.
--
-- ARGV[12] the owner it is for, empty for all others
-- ARGV[13] the message
settle()
tell(ARGV[own], ARGV[own + 1])
return reply()
