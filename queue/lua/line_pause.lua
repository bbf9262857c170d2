-- line_pause: stop or resume the handing out of slots.
--
-- ARGV[12] 1 to stop, 0 to resume
books.paused = tonumber(ARGV[own])
settle()
return reply()
