-- Finds open rows whose owner is dead. KEYS as for write.lua. ARGV: the lease in ms.
-- Returns id, owner and packed row of each.
local rows, open, owners = KEYS[1], KEYS[3], KEYS[5]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local out = {}
local all = redis.call('HGETALL', open)
for i = 1, #all, 2 do
	local till = redis.call('ZSCORE', owners, all[i + 1])
	if not till or tonumber(till) < now then
		out[#out + 1] = all[i]
		out[#out + 1] = all[i + 1]
		out[#out + 1] = redis.call('HGET', rows, all[i])
	end
end
-- An owner is remembered for a while, so that it learns that it was late.
redis.call('ZREMRANGEBYSCORE', owners, '-inf', now - 100 * tonumber(ARGV[1]))
return out
