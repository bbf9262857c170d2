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

-- One call for all rows of a kind, not one a row: a script is mostly the price of its calls.
local ids = {}
for i = 6, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
if #ids > 0 then
	local whose, taken = redis.call('HMGET', open, unpack(ids)), redis.call('HMGET', lost, unpack(ids))
	local set, at, opened, closed, found = {}, {}, {}, {}, {}
	local function add(list, one, other)
		list[#list + 1] = one
		list[#list + 1] = other
	end
	for i, id in ipairs(ids) do
		local from = 2 + 4 * i
		-- The first end stays, but for one that was only taken for it.
		if whose[i] or taken[i] == owner or redis.call('HEXISTS', rows, id) == 0 then
			add(set, id, ARGV[from + 3])
			add(at, ARGV[from + 1], id)
			if taken[i] then add(found, id) end
			if ARGV[from + 2] == '1' then
				add(opened, id, owner)
			elseif whose[i] then
				add(closed, id)
			end
		end
	end
	local function all(command, key, list)
		if #list > 0 then redis.call(command, key, unpack(list)) end
	end
	all('HSET', rows, set)
	all('ZADD', times, at)
	all('HDEL', lost, found)
	all('HSET', open, opened)
	all('HDEL', open, closed)
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
