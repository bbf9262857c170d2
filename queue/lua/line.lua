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
-- KEYS[4]  books    hash, its values packed by cmsgpack: line: epoch, quiet, arrival, fence, version, gate,
--                   waiting, typical, pressing (tickets that are not batch), claimants (keys
--                   with tickets), idle (accounts that are not active): numbers; name, deadline,
--                   tickets of each owner; the names of the slots, one a line; name, fence, state,
--                   clean, since, came, cost, asked, owner, id, user, purse of each;
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

-- The functions are in one table, and each file behind this one is a function that holds
-- them: where one names a local of the script, Lua searches for that among all such that
-- others have named, which would take longer than all that a script does. What most
-- scripts do not need, accounts.lua and places.lua, is made when it is asked for.
local line, seldom = {}, nil
setmetatable(line, {__index = function(_, name)
  setmetatable(line, nil)
  seldom()
  return line[name]
end})
local call, format, match = redis.call, string.format, string.match
local TICKETS, QUEUES, INDEX, BOOKS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, own = ARGV[2], 13
local lease, grace, crowd = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[12])

local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end

local cutoff = now - ARGV[11] -- who has gone without the slot since then starves

local verdict, arrival, place, work, known, mine = DONE, 0, 0, 0, 0, 0
local grants, holds, lost, asks, running_for, more = {}, {}, {}, {}, {}, {}

local loaded, everyone, met = {}, {}, 0 -- accounts by their field, and as a list; how many were loaded
local gone, unfiled = {}, {} -- fields to delete, entries to take out of INDEX

-- A purse is "class key", the name of an account. This one is that of slots without a job.
local NOBODY = '0 '

-- int writes a whole number without an exponent.
function line.int(n) return format('%.0f', n) end

-- The books come as one text. Without it Redis has lost its data: what is left is of an
-- older kind, or of nobody.
local record = call('HGET', BOOKS, 'line')
local books, people, names, berths
if record then
  books = {}
  books.epoch, books.quiet, books.arrival, books.fence, books.version, books.gate, books.waiting, books.typical, books.pressing,
    books.claimants, books.idle, people, names, berths = cmsgpack.unpack(record)
else
  for _, key in ipairs({QUEUES, INDEX}) do call('ZREMRANGEBYLEX', key, '-', '+') end
  for _, key in ipairs({TICKETS, BOOKS}) do
    for _, field in ipairs(call('HKEYS', key)) do call('HDEL', key, field) end
  end
  books = {
    epoch = now, quiet = 0, arrival = 0, fence = 0, version = 0, gate = OPEN, waiting = 0, typical = 60000000, -- a guess
    pressing = 0, claimants = 0, idle = 0,
  }
  if ARGV[3] ~= '0' then books.quiet = now + ARGV[8] end
  people, names, berths = {}, '', {}
end

-- owners are few: a list, and the same by name.
local owners = {}
for i = 1, #people, 3 do
  local o = {name = people[i], till = people[i + 1], tickets = people[i + 2]}
  owners[#owners + 1], owners[o.name] = o, o
end

local slots = {}
for i = 1, #berths, 12 do
  slots[#slots + 1] = {
    slot = berths[i], fence = berths[i + 1], state = berths[i + 2], clean = berths[i + 3], since = berths[i + 4], came = berths[i + 5],
    cost = berths[i + 6], asked = berths[i + 7], owner = berths[i + 8], id = berths[i + 9], user = berths[i + 10], purse = berths[i + 11],
  }
end

-- One set of slots a line: another set is taken over only when nobody else is there.
-- Whoever held one of the old set is dead then.
local former = {}
if names ~= ARGV[10] then
  for _, o in ipairs(owners) do
    if o.till > now and o.name ~= me then
      return redis.error_reply('SLOTS another proxy (' .. o.name .. ') has other slots on this line')
    end
  end
  former, slots = slots, {}
  for name in string.gmatch(ARGV[10], '[^\n]+') do
    slots[#slots + 1] = {
      slot = name, fence = 0, state = IDLE, clean = 0, since = books.epoch, came = 0, cost = 0, asked = UNASKED,
      owner = '', id = '', user = '', purse = NOBODY,
    }
  end
end

function line.slot(name)
  for _, s in ipairs(slots) do
    if s.slot == name then return s end
  end
end

-- held finds the slot that the caller holds by this very fence.
function line.held(name, fence)
  local s = line.slot(name)
  if s and s.state ~= IDLE and s.fence == fence and s.owner == me then return s end
end

-- running finds the slot that is lent to a job.
function line.running(id)
  for _, s in ipairs(slots) do
    if s.state == BUSY and s.id == id then return s end
  end
end

function line.release(s, clean)
  s.state, s.owner, s.id, s.purse, s.clean, s.since = IDLE, '', '', NOBODY, clean, now
  s.came, s.cost, s.asked, s.user = 0, 0, UNASKED, ''
end

function line.sick(state) return state == POISONED or state == DOWN end
