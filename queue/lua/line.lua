-- line: the policy of the queue. This file, order.lua and moves.lua are put before
-- every other script of this folder. They say in Lua what queue/line says in Go, with
-- the same names.
--
-- KEYS[1]  tickets  hash, id -> "owner class arrival cost prefer user key" of those that wait
-- KEYS[2]  queues   zset of equal scores, "class length key user arrival id owner cost prefer user" of
--                   each ticket, so that those of an account stand together, in order; the
--                   first user is empty unless the users of the key are told apart
-- KEYS[3]  index    zset of equal scores, where accounts are filed: those that wait and do not
--                   run by what they have used and by how long they have gone without, those
--                   that are not active by what they have used; order.lua says how
-- KEYS[4]  books    hash: epoch, quiet, arrival, fence, version, gate, waiting, typical, pressing
--                   (tickets that are not batch), claimants (keys with tickets), idle (accounts
--                   that are not active): numbers; owners: "name deadline tickets" of each, joined
--                   by blanks; slots: their names, one a line; slot:NAME: "fence state clean since
--                   came cost asked owner id user class key", none: idle and unclean;
--                   a:PURSE, u:LENGTH PURSE USER: an account, as order.lua has it
-- ARGV[1]  the time for tests, or 0 for the clock of Redis
-- ARGV[2]  the caller's owner name
-- ARGV[3]  the epoch it knows, 0 for none
-- ARGV[4]  most tickets in line
-- ARGV[5]  most tickets of one key in line
-- ARGV[6]  length of a lease
-- ARGV[7]  poison grace
-- ARGV[8]  quiet time
-- ARGV[9]  what an owner's name is put behind to make its channel
-- ARGV[10] names of the slots, one a line
-- ARGV[11] how long a key goes without the slot before it starves
-- ARGV[12] how many keys or users may have tickets in line for joins to be told places
-- ARGV[13] and what follows: the script's own
-- returns  {verdict, epoch, version, waiting, arrival, place, work, known, mine, gate,
--           ill, grants, holds, lost, asks, running, more}; grants, holds, lost and asks are
--           flat lists of slot, fence, state, owner, id; running is one of for how long and cost of
--           each slot that is not out of order; more is the script's own
--
-- All times are microseconds. They and the numbers made of them stay below 2^53,
-- where a double counts exactly. A script is mostly the price of its calls, so the
-- books are read in one and written in one.
local IDLE, BUSY, ABORTING, POISONED, DOWN = 1, 2, 3, 4, 5
local DONE, STALE, FULL, KEY_LIMIT, ALL_POISONED, ALL_DOWN, DUPLICATE, CLOSED = 0, 1, 2, 3, 4, 5, 6, 7
local OPEN, DRAINING = 0, 2

-- What was said to the holder of a slot about giving it back early.
local UNASKED, ASKED, KEPT = 0, 1, 2

local call, format, match = redis.call, string.format, string.match
local TICKETS, QUEUES, INDEX, BOOKS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, own = ARGV[2], 13
local lease, grace, crowd = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[12])

local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end

local verdict, arrival, place, work, known, mine = DONE, 0, 0, 0, 0, 0
local grants, holds, lost, asks, running_for, more = {}, {}, {}, {}, {}, {}

-- A purse is "class key", the name of an account. This one is that of slots without a job.
local NOBODY = '0 '

-- int writes a whole number without an exponent.
local function int(n) return format('%.0f', n) end

local fields = {'epoch', 'quiet', 'arrival', 'fence', 'version', 'gate', 'waiting', 'typical', 'pressing', 'claimants', 'idle', 'owners', 'slots'}
local numbers, slots = 11, {}
for name in string.gmatch(ARGV[10], '[^\n]+') do
  slots[#slots + 1] = {slot = name}
  fields[#fields + 1] = 'slot:' .. name
end
local read = call('HMGET', BOOKS, unpack(fields))
local books, was = {}, {}
for i = 1, numbers do
  was[i] = tonumber(read[i] or 0)
  books[fields[i]] = was[i]
end
if books.typical == 0 then books.typical = 60000000 end -- a guess
if books.epoch == 0 then
  books.epoch = now
  if ARGV[3] ~= '0' then books.quiet = now + ARGV[8] end
end

-- owners are few: a list, and the same by name.
local owners, owners_changed = {}, false
for name, till, tickets in string.gmatch(read[12] or '', '(%S+) (%d+) (%d+)') do
  local o = {name = name, till = tonumber(till), tickets = tonumber(tickets)}
  owners[#owners + 1], owners[name] = o, o
end

local former = {} -- slots of another set

-- One set of slots a line: another set is taken over only when nobody else is there.
-- Whoever held one of the old set is dead then.
if read[13] ~= ARGV[10] then
  for _, o in ipairs(owners) do
    if o.till > now and o.name ~= me then
      return redis.error_reply('SLOTS another proxy (' .. o.name .. ') has other slots on this line')
    end
  end
  for name in string.gmatch(read[13] or '', '[^\n]+') do
    former[#former + 1] = call('HGET', BOOKS, 'slot:' .. name) or nil
    call('HDEL', BOOKS, 'slot:' .. name)
  end
  call('HSET', BOOKS, 'slots', ARGV[10])
  for i = 14, #fields do read[i] = false end
end

local function read_slot(s, record)
  local fence, state, clean, since, came, cost, asked, owner, id, user, purse =
    match(record, '^(%d+) (%d) (%d) (%d+) (%d+) (%d+) (%d) (%S*) (%S*) (%S*) (.*)$')
  s.fence, s.state, s.clean, s.since = tonumber(fence), tonumber(state), tonumber(clean), tonumber(since)
  s.came, s.cost, s.asked, s.owner, s.id, s.user, s.purse = tonumber(came), tonumber(cost), tonumber(asked), owner, id, user, purse
  return s
end

for i, s in ipairs(slots) do
  local record = read[13 + i]
  if record then
    read_slot(s, record)
  else
    s.fence, s.state, s.clean, s.since, s.came, s.cost, s.asked = 0, IDLE, 0, books.epoch, 0, 0, UNASKED
    s.owner, s.id, s.user, s.purse = '', '', '', NOBODY
  end
end

local function slot(name)
  for _, s in ipairs(slots) do
    if s.slot == name then return s end
  end
end

-- held finds the slot that the caller holds by this very fence.
local function held(name, fence)
  local s = slot(name)
  if s and s.state ~= IDLE and s.fence == fence and s.owner == me then return s end
end

-- running finds the slot that is lent to a job.
local function running(id)
  for _, s in ipairs(slots) do
    if s.state == BUSY and s.id == id then return s end
  end
end

local function release(s, clean)
  s.state, s.owner, s.id, s.purse, s.clean, s.since, s.changed = IDLE, '', '', NOBODY, clean, now, true
  s.came, s.cost, s.asked, s.user = 0, 0, UNASKED, ''
end

local function sick(state) return state == POISONED or state == DOWN end
