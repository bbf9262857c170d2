-- Ends rows that a dead owner left open, if they still are. KEYS as for write.lua.
-- ARGV: for each row its id, its owner, and the packed row as it ends. Returns the ids
-- of those that it has ended.
local rows, open, lost = KEYS[1], KEYS[3], KEYS[4]
local ended = {}
for i = 1, #ARGV, 3 do
	if redis.call('HGET', open, ARGV[i]) == ARGV[i + 1] then
		redis.call('HSET', rows, ARGV[i], ARGV[i + 2])
		redis.call('HDEL', open, ARGV[i])
		redis.call('HSET', lost, ARGV[i], ARGV[i + 1])
		ended[#ended + 1] = ARGV[i]
	end
end
return ended
