-- owner_quit: take the caller out. Its tickets leave, its slots are freed unclean.
if owners[me] then drop(owners[me]) end
settle()
return reply()
