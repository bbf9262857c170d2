-- Keeps rows, renews the owner's lease, and deletes what is too old or too many.
-- KEYS: rows times open lost owners. ARGV: owner, its lease in ms, the oldest
-- time to keep (0: any), the number to keep (0: all), the most to delete, then
-- for each row its id, its time, 1 if it is open, and the packed row.
-- Returns whether there is more to delete, and whether the lease had run out.
local rows, times, open, lost, owners = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, lease, since, most, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local till = redis.call('ZSCORE', owners, owner)
redis.call('ZADD', owners, now + lease, owner)

for i = 6, #ARGV, 4 do
	local id = ARGV[i]
	local ended = redis.call('HEXISTS', open, id) == 0 and redis.call('HEXISTS', rows, id) == 1
	-- The first end stays, but for one that was only taken for it.
	if not ended or redis.call('HGET', lost, id) == owner then
		redis.call('HSET', rows, id, ARGV[i + 3])
		redis.call('ZADD', times, ARGV[i + 1], id)
		redis.call('HDEL', lost, id)
		if ARGV[i + 2] == '1' then
			redis.call('HSET', open, id, owner)
		else
			redis.call('HDEL', open, id)
		end
	end
end

-- drop deletes up to n of the ids, none that is open.
local function drop(ids, n)
	local dropped = 0
	for _, id in ipairs(ids) do
		if dropped < n and redis.call('HEXISTS', open, id) == 0 then
			redis.call('HDEL', rows, id)
			redis.call('ZREM', times, id)
			redis.call('HDEL', lost, id)
			dropped = dropped + 1
		end
	end
	return dropped
end

local more, opened = 0, redis.call('HLEN', open)
if since > 0 then
	local old = redis.call('ZRANGEBYSCORE', times, '-inf', '(' .. since, 'LIMIT', 0, limit + opened)
	if drop(old, limit) == limit then more = 1 end
end
if most > 0 then
	local excess = math.min(redis.call('ZCARD', times) - opened - most, limit)
	if excess > 0 and drop(redis.call('ZRANGE', times, 0, excess + opened - 1), excess) == limit then more = 1 end
end

local late = 0
if till and tonumber(till) < now then late = 1 end
return {more, late}
