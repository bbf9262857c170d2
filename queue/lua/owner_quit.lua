-- owner_quit: take the caller out. Its tickets leave, its slots are freed unclean.
drop(me)
settle()
return reply()
