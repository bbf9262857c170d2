-- slot_free: give a slot back and, in the same breath, hand it to whoever is next.
--
-- ARGV[13] slot
-- ARGV[14] fence by which the caller holds it
-- ARGV[15] 1 if its engine has been seen idle since its last use, else 0
-- ARGV[16] and what follows: ids of tickets that leave before it is handed on
-- returns  DONE, or STALE if the caller does not hold it by this fence
local s = line.held(ARGV[own], tonumber(ARGV[own + 1]))
if s then
  line.bill(s)
  line.release(s, tonumber(ARGV[own + 2]))
else
  verdict = STALE
end
if ARGV[own + 3] then line.withdraw({unpack(ARGV, own + 3)}) end
line.settle()
return line.reply()
