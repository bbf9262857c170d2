-- owner_quit: take the caller out. Its tickets leave, its slots are freed unclean.
if owners[me] then line.drop(owners[me]) end
line.settle()
return line.reply()
