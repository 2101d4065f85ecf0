-- The decision rule at the data: it decides requests in order, each over one or more keys, all or nothing.
--
-- KEYS     one for every charge, and after those of a settlement that is remembered two hashes
-- ARGV[1]  packed: the time in microseconds or -1 for the server's own, and the milliseconds that a state outlives its
--          meaning or -1 to keep it for ever (for tests). If there is nothing else, the limit and the cost of a take of one
--          charge over a window in one part follow in the same text: the commonest request by far
-- ARGV[2]  empty if there are many of these; then ARGV[3] has their limits, packed, and ARGV[4] for every charge which
--          limit it has, and its cost
-- ARGV[2+] or else one packed text for every key; the first charge of a request says how many it has
--
-- It returns one string: the time, then for every charge what it decided and the state that the answer is derived from. The
-- time alone means that it lies outside of the boundaries that came with a window of the calendar, and that nothing was done.
--
-- A value ends with the version of its format, a byte. What version 1 wrote has none; its length divides by 8. Windows are
-- still written so: their format is the same, and the short ways of version 1 reply a value as it is, whatever its length.
--
-- Lua counts in doubles, which are exact for whole numbers below 2^53. Everything here stays below that: muldiv takes
-- products apart that would not, and limits for which that is not enough are refused before they get here.
local pack, unpack_, call = struct.pack, struct.unpack, redis.call

local EXACT = 9007199254740992 -- 2^53
local MOST = EXACT - 1 -- where counts saturate
local VERSION = 2
local NOTHING = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- a state that there is not

local now, grace, quota, window, cost, fixed, anchored, denied, overlap
local many = ARGV[2]
if many then
  now, grace = unpack_('<dd', ARGV[1])
else
  now, grace, fixed, anchored, denied, overlap, quota, window, cost = unpack_('<ddBBBBddd', ARGV[1])
end
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- muldiv returns floor(a*b/c) and what is left, for b <= c < 2^48. It multiplies digit by digit, the highest first, with
-- digits small enough that no step leaves the exact range.
local function muldiv(a, b, c)
  local floor, product = math.floor, a * b
  if product < EXACT then
    local quotient = floor(product / c)
    return quotient, product - quotient * c
  end
  local base, digit = 1, 2 * c
  while digit * 2 <= EXACT do
    base, digit = base * 2, digit * 2
  end
  local place = 1
  while place * base <= a do
    place = place * base
  end
  local quotient, rest = 0, 0
  while place >= 1 do
    local d = floor(a / place)
    a = a - d * place
    local x = rest * base + d * b
    local q = floor(x / c)
    quotient, rest = quotient * base + q, x - q * c
    place = place / base
  end
  return quotient, rest
end

-- Windows in one part, each taken from by itself -----------------------------------------------------------------------

-- saveOne writes the value of a window. While its start stays, so does the time at which it expires.
local function saveOne(key, value, was, start, fixed, window)
  if grace < 0 then
    call('SET', key, value)
  elseif start == was then
    call('SET', key, value, 'KEEPTTL')
  else
    call('SET', key, value, 'PX', math.max(1, math.ceil((start + (2 - fixed) * window - now) / 1000) + grace))
  end
end

-- What follows is the rule of the general part below for counts of two or one, written out: a function or a table for each
-- charge would take longer than deciding. Of many charges, everything is read at once and written at the end, a key that is
-- asked for several times once.
if not many or many == '' then
  local n, limits, charges, values, first, was, starts, changed, replies, char = 1
  if many then
    n, limits, charges, values = #KEYS, ARGV[3], ARGV[4], call('MGET', unpack(KEYS))
    first, was, starts, changed, replies = {}, {}, {}, {}, { pack('<d', now) }
    char = string.char
  end
  local limit = -1
  for i = 1, n do
    local key, k, value = KEYS[i], i
    if many then
      local which
      which, cost = unpack_('<Hd', charges, 10 * i - 9)
      if which ~= limit then
        limit = which
        fixed, anchored, denied, overlap, quota, window = unpack_('<BBBBdd', limits, 20 * which + 1)
      end
      k = first[key] or i
      first[key] = k
      value = values[k]
    else
      value = call('GET', key)
    end

    local start, current, previous, newer = nil, 0, 0, false
    if value and #value ~= 24 - 8 * fixed then
      newer = string.byte(value, -1) > VERSION
      value = not newer and string.sub(value, 1, 24 - 8 * fixed)
    end
    if value and fixed == 1 then
      start, current = unpack_('<dd', value)
    elseif value then
      start, current, previous = unpack_('<ddd', value)
    end
    -- flags: 1 allowed, 2 the clock had moved, 4 there is no state, 8 a newer program wrote it
    local s, c, p, at, flags = start, current, previous, now, 0
    if not s then
      s, flags = anchored == 1 and now or now - now % window, 4
    else
      local since = now - s
      if since >= window then
        if fixed == 0 and since < 2 * window then
          s, p, c = s + window, c, 0
        else
          s, c, p = anchored == 1 and now or now - now % window, 0, 0
        end
      elseif since < -window then
        s, flags = anchored == 1 and now or now - now % window, 2
      elseif since < 0 then
        at = s
      end
    end

    local used = c
    if p > 0 then
      local covered = s + window - at
      if covered == window or overlap == 2 then
        used = used + p
      else
        local quotient, left = muldiv(p, covered, window)
        used = used + quotient
        if overlap == 0 and left > 0 then
          used = used + 1
        end
      end
    end

    local allowed = used + cost <= quota
    local charged = cost > 0 and (allowed or denied == 1 and cost <= quota)
    if newer then
      allowed, charged, flags = false, false, 8
    end
    local told = value -- what is stored
    if charged or flags == 2 and not allowed then
      if charged then
        c = c + cost
        if c > MOST then
          c = MOST
        end
        flags = flags % 4
      end
      told = pack('<ddd', s, c, p)
      value = fixed == 1 and string.sub(told, 1, 16) or told
      if not many then
        saveOne(key, value, start, s, fixed, window)
      else
        if not changed[k] then
          was[k] = start
        end
        values[k], starts[k], changed[k] = value, s, limit
      end
    elseif not told then
      told = NOTHING
    elseif fixed == 1 then
      told = told .. string.sub(NOTHING, 1, 8)
    end
    if allowed then
      flags = flags + 1
    end
    if not many then
      return pack('<dB', now, flags) .. told
    end
    replies[2 * i], replies[2 * i + 1] = char(flags), told
  end
  for k, which in pairs(changed) do
    fixed, anchored, denied, overlap, quota, window = unpack_('<BBBBdd', limits, 20 * which + 1)
    saveOne(KEYS[k], values[k], was[k], starts[k], fixed, window)
  end
  return table.concat(replies)
end

-- All requests -------------------------------------------------------------------------------------------------------

local floor, ceil, max, min, sub = math.floor, math.ceil, math.max, math.min, string.sub
grace = grace >= 0 and grace -- false to keep states for ever

local TAKE, TAKE_UP_TO, PEEK, CHARGE, GIVE_BACK, RESET, SETTLE, RENEW = 0, 1, 2, 3, 4, 5, 6, 7
local WINDOW, LOG, FIXED, BUCKET, IN_FLIGHT = 0, 1, 2, 3, 4
local UP, DOWN, WHOLE = 0, 1, 2
local MARK = string.char(VERSION) -- what a value ends with

-- mulDivAny is muldiv for any b. Where the quotient is not below 2^53 it is not exact, but still not below.
local function mulDivAny(a, b, c)
  local whole = floor(b / c)
  local quotient, rest = muldiv(a, b - whole * c, c)
  return quotient + a * whole, rest
end

-- isNewer reports whether a newer program wrote a value.
local function isNewer(value)
  return #value % 8 ~= 0 and string.byte(value, -1) > VERSION
end

-- get returns the value of a charge's key, or nothing if there is none or a newer program wrote it.
local function get(it)
  local value = call('GET', it.key)
  it.newer = value and isNewer(value)
  return not it.newer and value
end

-- put writes the value of a charge's key.
local function put(it, value, ttl)
  if ttl then
    call('SET', it.key, value, 'PX', ttl)
  else
    call('SET', it.key, value)
  end
end

-- after returns how many units are later than a moment. The i-th from the oldest has the time timeOf(it, i).
local function after(it, t, timeOf)
  local low, high = 0, it.count -- the first later one lies between
  while low < high do
    local middle = floor((low + high) / 2)
    if timeOf(it, middle) > t then
      high = middle
    else
      low = middle + 1
    end
  end
  return it.count - low
end

-- lookBack sees the units of a log, or slots, at now. Where the clock had jumped ahead, their times are behind it.
local function lookBack(it, now, timeOf)
  it.at, it.moved, it.behind, it.live = now, false, 0, 0
  if it.count > 0 then
    local newest = timeOf(it, it.count - 1)
    it.newest = newest
    if newest > now + it.window then
      it.moved, it.behind = true, newest - now
    elseif newest > now then
      it.at = newest
    end
    it.live = after(it, it.at - it.window + it.behind, timeOf)
  end
end

-- tellBack returns how many units count, the newest one's time, and the time of the one that must expire before cost fits, or
-- before one unit does if the request was allowed.
local function tellBack(it, timeOf)
  local blocking = now - it.window -- nothing to wait for
  local excess = it.live + (it.allowed and 1 or it.cost) - it.quota
  if excess > 0 and excess <= it.live then
    blocking = timeOf(it, it.count - it.live + excess - 1) - it.behind
  end
  return pack('<ddd', it.live, it.live > 0 and it.newest - it.behind or 0, blocking)
end

-- The algorithms are made when a charge needs them: to make the functions of all would take longer than most decisions.

-- Windows ------------------------------------------------------------------------------------------------------------

-- A window of the calendar comes with the boundaries of the period that now lies in, begins and ends.
local function makeWindow()
  local window = {}

  function window.load(it)
    local value = get(it)
    it.start, it.counts = nil, {}
    if value then
      it.start = unpack_('<d', value)
      for i = 1, it.parts do
        it.counts[i] = unpack_('<d', value, 8 * i + 1)
      end
    end
  end

  function window.startAt(it, now)
    if it.first then
      return now
    end
    return now - now % it.part
  end

  -- weigh is how much a count counts of which covered/part lies in the window.
  local function weigh(it, count, covered)
    if count == 0 or covered == it.part or it.overlap == WHOLE then
      return count
    end
    local quotient, rest = muldiv(count, covered, it.part)
    if it.overlap == UP and rest > 0 then
      quotient = quotient + 1
    end
    return quotient
  end

  -- place finds where the current part starts at now, and by how many parts the counts are behind it.
  local function place(it, now)
    it.at, it.moved, it.shift, it.place = now, false, 0, it.start
    if not it.start then
      it.place, it.shift = window.startAt(it, now), it.parts
      return
    end
    local ahead = it.start - now
    if ahead > it.window then
      it.place, it.moved = window.startAt(it, now), true
    elseif ahead > 0 then
      it.at = it.start
    elseif -ahead >= it.part then
      local passed = floor(-ahead / it.part)
      if passed >= it.parts then
        it.place, it.shift = window.startAt(it, now), it.parts
      else
        it.place, it.shift = it.start + passed * it.part, passed
      end
    end
  end

  -- placeInCalendar is place for a window of the calendar. A state that starts later than the period was written by a program
  -- with other zone data, and its start stays.
  local function placeInCalendar(it, now)
    it.at, it.moved, it.shift, it.place = now, false, 0, it.start
    if not it.start or it.start < it.begins then
      it.place, it.shift = it.begins, 1
    elseif it.start - now > it.window then
      it.place, it.moved = it.begins, true
    elseif it.start > now then
      it.at = it.start
    end
  end

  function window.look(it, now)
    if it.begins then
      placeInCalendar(it, now)
    else
      place(it, now)
    end
    local oldest = it.parts - it.shift -- counted from 1
    local used = 0
    if oldest >= 1 then
      if it.algorithm == FIXED then
        used = it.counts[1]
      else
        for i = 1, oldest - 1 do
          used = used + it.counts[i]
        end
        used = used + weigh(it, it.counts[oldest], it.place + it.part - it.at)
      end
    end
    it.room = it.quota - used
  end

  function window.roll(it)
    local counts = {}
    for i = 1, it.parts do
      counts[i] = i > it.shift and it.counts[i - it.shift] or 0
    end
    it.counts, it.start, it.shift = counts, it.place, 0
  end

  window.settle = window.roll

  function window.charge(it, n)
    window.roll(it)
    it.counts[1] = min(it.counts[1] + n, MOST)
  end

  window.refuse = window.charge

  function window.giveBack(it, n, at)
    if not it.start then
      return 0
    end
    local newest, oldest = 0, it.parts - 1
    if at ~= 0 then
      if at < it.place then
        newest = min(floor((it.place - at - 1) / it.part) + 1, it.parts)
      end
      oldest = min(oldest, newest)
    end
    local given = 0
    local i = oldest
    while i >= max(newest, it.shift) and given < n do
      local place = i - it.shift + 1
      local taken = min(n - given, it.counts[place])
      it.counts[place] = it.counts[place] - taken
      given = given + taken
      i = i - 1
    end
    if given > 0 then
      window.roll(it)
    end
    return given
  end

  -- expires returns when a state ends, or for one that a clock left in a later period of the calendar when it has surely ended.
  function window.expires(it)
    if it.begins and it.start < it.ends then
      return it.ends
    end
    return it.start + it.parts * it.part
  end

  function window.told(it)
    if not it.start then
      return ''
    end
    local value = { pack('<d', it.start) }
    for i = 1, it.parts do
      value[i + 1] = pack('<d', it.counts[i])
    end
    return table.concat(value)
  end

  function window.save(it, ttl)
    put(it, it.begins and window.told(it) .. MARK or window.told(it), ttl)
  end

  return window
end

-- Token bucket -------------------------------------------------------------------------------------------------------

-- The state is what is missing from a full bucket as of a moment, its debt: whole units and a rest in 1/window of a unit. A
-- microsecond refills quota/window of a unit.
--
-- The value begins with what version 1 kept and still reads: when the bucket is full, and a fraction in 1/quota of a
-- microsecond. A value of these two alone was written by version 1, and the debt is what refills until then.
local function makeBucket()
  local bucket = {}

  -- ended sets when the state ends: a window after it was charged, or when the bucket is full, if that is later.
  local function ended(it)
    it.ends = max(it.start + it.window, it.fraction > 0 and it.full + 1 or it.full)
  end

  function bucket.load(it)
    local value = get(it)
    it.start, it.missing, it.rest, it.full = nil, 0, 0, nil
    if value and #value == 16 then
      it.full, it.fraction = unpack_('<dd', value)
    elseif value then
      it.full, it.fraction, it.start, it.missing, it.rest = unpack_('<ddddd', value)
      ended(it)
    end
  end

  local function above(a, ar, b, br)
    return a > b or a == b and ar > br
  end

  local function minus(it, a, ar, b, br)
    if ar < br then
      return a - b - 1, ar + it.window - br
    end
    return a - b, ar - br
  end

  -- refilled is how much a number of microseconds refills.
  local function refilled(it, micros)
    return mulDivAny(micros, it.quota, it.window)
  end

  -- deepest returns a debt, or the deepest one that there is: one window's refill beyond empty.
  local function deepest(it, debt, rest)
    local most = min(it.burst + it.quota, MOST)
    if above(debt, rest, most, 0) then
      return most, 0
    end
    return debt, rest
  end

  -- lookLegacy returns the debt at now of a state of version 1. A deeper one than there is was left by a clock that jumped ahead.
  local function lookLegacy(it, now)
    if it.full < now then
      return 0, 0
    end
    local debt, rest = refilled(it, it.full - now)
    rest = rest + min(it.fraction, it.quota - 1)
    local more = floor(rest / it.window)
    debt, rest = debt + more, rest - more * it.window
    local cut, cutRest = deepest(it, debt, rest)
    it.moved = above(debt, rest, cut, cutRest)
    return cut, cutRest
  end

  -- lookDebt returns the debt at now.
  local function lookDebt(it, now)
    local debt, rest = deepest(it, it.missing, it.rest)
    local ahead = it.start - now
    if ahead > 0 then
      it.moved = ahead > it.window
      it.at = it.moved and now or it.start
      return debt, rest
    end
    local back, backRest = refilled(it, -ahead)
    if now >= it.ends or not above(debt, rest, back, backRest) then
      return 0, 0
    end
    return minus(it, debt, rest, back, backRest)
  end

  function bucket.look(it, now)
    it.at, it.moved = now, false
    local debt, rest = 0, 0
    if it.start and (it.missing > 0 or it.rest > 0) then
      debt, rest = lookDebt(it, now)
    elseif it.full and not it.start then
      debt, rest = lookLegacy(it, now)
    end
    it.debt, it.debtRest = debt, rest
    if above(debt, rest, it.burst, 0) then
      it.room = -1 -- overdrawn; by how much is for the answer, not for the decision
    else
      it.room = it.burst - debt - (rest > 0 and 1 or 0)
    end
  end

  local function setDebt(it, debt, rest)
    it.debt, it.debtRest = debt, rest
    it.start, it.missing, it.rest = it.at, debt, rest
    local micros, fraction = mulDivAny(debt, it.window, it.quota)
    fraction = fraction + rest
    local more = floor(fraction / it.quota)
    it.full, it.fraction = it.at + micros + more, fraction - more * it.quota
    ended(it)
  end

  function bucket.charge(it, n)
    setDebt(it, deepest(it, it.debt + n, it.debtRest))
  end

  function bucket.refuse(it)
    if above(it.burst, 0, it.debt, it.debtRest) then
      setDebt(it, it.burst, 0)
    else
      setDebt(it, it.debt, it.debtRest)
    end
  end

  function bucket.settle(it)
    setDebt(it, it.debt, it.debtRest)
  end

  -- giveBack undoes a charge as far as it has not been refilled since.
  function bucket.giveBack(it, n, at)
    local back, backRest = n, 0
    if at ~= 0 and at < it.at then
      local whole, rest = refilled(it, it.at - at)
      if not above(back, 0, whole, rest) then
        return 0
      end
      back, backRest = minus(it, back, 0, whole, rest)
    end
    if above(back, backRest, it.debt, it.debtRest) then
      back, backRest = it.debt, it.debtRest
    end
    if back == 0 and backRest == 0 then
      return 0
    end
    setDebt(it, minus(it, it.debt, it.debtRest, back, backRest))
    return back + (backRest > 0 and 1 or 0)
  end

  function bucket.expires(it)
    return it.ends
  end

  function bucket.save(it, ttl)
    if it.missing == 0 and it.rest == 0 then
      call('DEL', it.key) -- full is as if it had never been seen
      return
    end
    put(it, pack('<ddddd', it.full, it.fraction, it.start, it.missing, it.rest) .. MARK, ttl)
  end

  function bucket.told(it)
    if it.start then
      return pack('<dddd', it.start, it.missing, it.rest, it.ends)
    elseif it.full then
      return pack('<dd', it.full, it.fraction)
    end
    return ''
  end

  return bucket
end

-- Sliding log --------------------------------------------------------------------------------------------------------

-- The value is a header, then a ring of times, 8 bytes each, which grows as it fills and never beyond the quota. The header
-- holds how many slots there are, where the oldest unit lies and how many units there are. A small one is read at once, of a
-- large one only what is needed, and of any only what changes is written.
local function makeLog()
  local log = {}
  local HEADER = 24
  local SMALL = 256 -- slots
  local SMALL_BYTES = HEADER + 8 * SMALL + 1 -- with the version

  -- isNewerLog is isNewer for a log of which the beginning was read. What comes after the ring ends with the version, whatever a
  -- newer one may put there. It takes no other command than version 1 did, for which users may have no right yet.
  local function isNewerLog(it, bytes)
    if #bytes < SMALL_BYTES then
      return isNewer(bytes)
    end
    local rest = call('GETRANGE', it.key, HEADER + 8 * unpack_('<d', bytes), -1)
    return rest ~= '' and string.byte(rest, -1) > VERSION
  end

  function log.load(it)
    it.slots, it.head, it.count, it.bytes = 0, 0, 0, nil
    local bytes = call('GETRANGE', it.key, 0, SMALL_BYTES - 1)
    it.newer = bytes ~= '' and isNewerLog(it, bytes)
    if bytes ~= '' and not it.newer then
      it.slots, it.head, it.count = unpack_('<ddd', bytes)
      it.bytes = it.slots <= SMALL and bytes
    end
  end

  -- unit returns the time of the unit that comes i-th from the oldest, counted from 0.
  local function unit(it, i)
    local place = HEADER + 8 * ((it.head + i) % it.slots)
    if it.bytes then
      return (unpack_('<d', it.bytes, place + 1))
    end
    return (unpack_('<d', call('GETRANGE', it.key, place, place + 7)))
  end

  function log.look(it, now)
    lookBack(it, now, unit)
    it.live = min(it.live, it.quota)
    it.room = it.quota - it.live
  end

  -- times returns the times of the live units, the oldest first.
  local function times(it)
    if not it.bytes and it.count > 0 then
      it.bytes = call('GET', it.key) -- all of it is needed: one call, and not one for every unit
    end
    local all = {}
    for i = it.count - it.live, it.count - 1 do
      all[#all + 1] = unit(it, i) - it.behind
    end
    it.behind = 0
    return all
  end

  -- replace makes the log of a list of times, the newest quota of them, with room to grow.
  local function replace(it, all)
    local from = max(1, #all - it.quota + 1)
    local ring = {}
    for i = from, #all do
      ring[#ring + 1] = pack('<d', all[i])
    end
    it.count, it.head, it.live = #ring, 0, #ring
    it.slots = min(it.quota, max(4, 2 * it.count))
    it.whole, it.newest = true, all[#all]
    -- All slots are written, for Redis gives a string that grows by a few bytes twice the memory that it needs.
    it.bytes = pack('<ddd', it.slots, 0, it.count) .. table.concat(ring) .. string.rep('\0', 8 * (it.slots - it.count)) .. MARK
  end

  function log.settle(it)
    replace(it, times(it))
  end

  -- charge adds units at it.at, over the oldest ones if the quota is full.
  function log.charge(it, n)
    n = min(n, it.quota)
    local head = it.slots > 0 and (it.head + it.count - it.live) % it.slots or 0
    local needed = min(it.quota, it.live + n)
    if it.behind > 0 or it.slots > it.quota or needed > it.slots then
      local all = times(it)
      for _ = 1, n do
        all[#all + 1] = it.at
      end
      replace(it, all)
      return
    end
    local first = (head + it.live) % it.slots
    local fit = min(n, it.slots - first) -- the others go to the beginning of the ring
    local time = pack('<d', it.at)
    call('SETRANGE', it.key, HEADER + 8 * first, string.rep(time, fit))
    if n > fit then
      call('SETRANGE', it.key, HEADER, string.rep(time, n - fit))
    end
    local over = max(0, it.live + n - it.slots)
    it.head, it.count = (head + over) % it.slots, it.live + n - over
    it.live, it.bytes, it.newest = it.count, nil, it.at
  end

  log.refuse = log.charge

  function log.giveBack(it, n, at)
    if it.count == 0 then
      return 0
    end
    local found = it.live
    if at ~= 0 then
      at = at + it.behind
      found = min(it.live, after(it, at - 1, unit)) - min(it.live, after(it, at, unit))
      at = at - it.behind
    end
    local given = min(n, found)
    if given == 0 then
      return 0
    end
    local all, left, gone = times(it), {}, 0
    for _, t in ipairs(all) do
      if gone < given and (at == 0 or t == at) then
        gone = gone + 1
      else
        left[#left + 1] = t
      end
    end
    replace(it, left)
    return given
  end

  function log.expires(it)
    if it.count == 0 then
      return 0
    end
    return it.newest + it.window
  end

  function log.save(it, ttl)
    if it.count == 0 then
      call('DEL', it.key)
      return
    end
    if it.whole then
      call('SET', it.key, it.bytes)
    else
      call('SETRANGE', it.key, 0, pack('<ddd', it.slots, it.head, it.count))
    end
    if ttl then
      call('PEXPIRE', it.key, ttl)
    end
  end

  function log.told(it)
    return tellBack(it, unit)
  end

  return log
end

-- In-flight ----------------------------------------------------------------------------------------------------------

-- The value has 16 bytes for every slot that is held: its ID, and when it was taken or last renewed. The least recently
-- renewed one comes first.
local function makeInFlight()
  local inFlight = {}
  local SLOT = 16

  function inFlight.load(it)
    it.bytes = sub(get(it) or '', 1, -2) -- without the version
    it.count = #it.bytes / SLOT
  end

  -- renewed returns when the slot was renewed that is the i-th, counted from 0.
  local function renewed(it, i)
    return (unpack_('<d', it.bytes, SLOT * i + 9))
  end

  function inFlight.look(it, now)
    lookBack(it, now, renewed)
    it.room = it.quota - it.live
  end

  -- keep makes some of the bytes all that there is.
  local function keep(it, bytes)
    it.bytes, it.count = bytes, #bytes / SLOT
  end

  -- cut takes n slots out, from the i-th on.
  local function cut(it, i, n)
    keep(it, sub(it.bytes, 1, SLOT * i) .. sub(it.bytes, SLOT * (i + n) + 1))
  end

  -- find returns the place of the slot of the charge's ID, or nothing. An ID of zeros is none.
  local function find(it)
    if it.id == '\0\0\0\0\0\0\0\0' then
      return nil
    end
    local at = string.find(it.bytes, it.id, 1, true)
    while at and (at - 1) % SLOT ~= 0 do
      at = string.find(it.bytes, it.id, at + 1, true)
    end
    return at and (at - 1) / SLOT
  end

  -- held is find for a slot that has not run out.
  function inFlight.held(it)
    local i = find(it)
    return i and i >= it.count - it.live and i
  end

  -- settle drops slots that were not renewed in time, and moves times back with the clock.
  function inFlight.settle(it)
    cut(it, 0, it.count - it.live)
    if it.behind > 0 then
      local moved = {}
      for i = 0, it.count - 1 do
        moved[i + 1] = sub(it.bytes, SLOT * i + 1, SLOT * i + 8) .. pack('<d', renewed(it, i) - it.behind)
      end
      keep(it, table.concat(moved))
      it.newest, it.behind = it.newest - it.behind, 0
    end
  end

  -- charge holds a slot, or renews it. Where it is held regardless, the one that was renewed least recently goes.
  function inFlight.charge(it)
    inFlight.settle(it)
    local i = find(it)
    if i then
      cut(it, i, 1)
    end
    local most = max(it.quota, it.live)
    if it.count >= most then
      cut(it, 0, it.count - most + 1)
    end
    keep(it, it.bytes .. it.id .. pack('<d', it.at))
    it.live, it.newest = it.count, it.at
  end

  function inFlight.giveBack(it, n, at)
    local i = 0
    if at == 0 then
      n = min(n, it.live)
    else
      i = inFlight.held(it)
      n = i and 1 or 0
    end
    if n > 0 then
      i = i - (at == 0 and 0 or it.count - it.live)
      inFlight.settle(it)
      cut(it, i, n)
    end
    return n
  end

  function inFlight.expires(it)
    return it.newest + it.window
  end

  function inFlight.save(it, ttl)
    if it.count == 0 then
      call('DEL', it.key)
    else
      put(it, it.bytes .. MARK, ttl)
    end
  end

  function inFlight.told(it)
    return tellBack(it, renewed)
  end

  return inFlight
end

-- Settlements --------------------------------------------------------------------------------------------------------

-- What is remembered of the settlements of an address lies in two hashes, one for even generations and one for odd ones. A
-- generation is as long as a settlement has to be remembered. A field is the ID of a reservation, and its value the
-- generation in which it was settled and what that did to each charge. One more field has the generation of the hash: what
-- is older than the one before the current is dropped.
local function makeSettlements()
  local GENERATION = 'generation'

  -- recall returns what is known of the settlement whose two hashes are the keys from i on.
  local function recall(i)
    local memo, length = {}
    length, memo.most, memo.id = unpack_('<ddc8', ARGV[i + 1])
    memo.generation = floor(now / length)
    memo.key = KEYS[i + memo.generation % 2]
    memo.ends = (memo.generation + 2) * length
    local own = call('HMGET', memo.key, GENERATION, memo.id)
    local values = { own[2], call('HGET', KEYS[i + (memo.generation + 1) % 2], memo.id) }
    for n = 1, 2 do
      local value = values[n]
      if value then
        memo.newer = memo.newer or isNewer(value)
        if not memo.newer and unpack_('<d', value) >= memo.generation - 1 then
          memo.back = sub(value, 9, -2)
        end
      end
    end
    if own[1] then
      memo.newer = memo.newer or isNewer(own[1])
      memo.old = not memo.newer and unpack_('<d', own[1]) < memo.generation
      memo.full = not memo.back and not memo.old and call('HLEN', memo.key) > memo.most
    end
    memo.begins = memo.old or not own[1]
    return memo
  end

  -- remember writes what a settlement did. It comes before all else that is written: where it fails, nothing has changed.
  local function remember(memo, back)
    if memo.old then
      call('UNLINK', memo.key)
    end
    local generation = pack('<d', memo.generation)
    if not memo.begins then
      call('HSET', memo.key, memo.id, generation .. back .. MARK)
      return
    end
    call('HSET', memo.key, GENERATION, generation .. MARK, memo.id, generation .. back .. MARK)
    if grace then
      call('PEXPIRE', memo.key, max(1, ceil((memo.ends - now) / 1000) + grace))
    end
  end

  -- backOf gives back what was not used of a charge, or says what is to be charged in addition, with a minus sign.
  local function backOf(it)
    if it.algorithm == IN_FLIGHT then
      return it.rule.giveBack(it, 1, 1)
    elseif it.used < it.cost then
      return it.rule.giveBack(it, it.cost - it.used, it.from)
    end
    return it.cost - it.used
  end

  -- settle replaces what was reserved by what was used, once.
  local function settle(items, memo)
    local back = {}
    for n, it in ipairs(items) do
      local slot = it.algorithm == IN_FLIGHT
      if not slot then
        it.repeated, it.unsettled = memo.back, memo.full
      end
      if memo.back then
        it.granted = 8 * n <= #memo.back and unpack_('<d', memo.back, 8 * n - 7) or 0
      elseif slot or not memo.full then
        it.granted = backOf(it)
        it.changed = it.granted ~= 0
      end
      back[n] = pack('<d', it.granted)
    end
    if memo.key and not memo.back and not memo.full then
      remember(memo, table.concat(back))
    end
    for _, it in ipairs(items) do
      if it.changed and it.granted < 0 then
        it.rule.charge(it, -it.granted)
      end
    end
  end

  return recall, settle
end

-- Requests -----------------------------------------------------------------------------------------------------------

local makers = { [WINDOW] = makeWindow, [FIXED] = makeWindow, [LOG] = makeLog, [BUCKET] = makeBucket, [IN_FLIGHT] = makeInFlight }
local algorithms = {}

-- readPeriod finds the period of the calendar that now lies in, if the boundaries that came with a charge have it.
local function readPeriod(it, text, at)
  local starts = { unpack_('<dddd', text, at) }
  for n = 1, 3 do
    if starts[n] <= now and now < starts[n + 1] then
      it.begins, it.ends = starts[n], starts[n + 1]
    end
  end
  it.outside = not it.begins
end

local function read(i)
  local it, text, calendar, at = { key = KEYS[i] }, ARGV[i + 1]
  it.op, it.charges, it.algorithm, it.overlap, it.first, it.countDenied, calendar, it.remembered, it.parts, it.quota, it.burst, it.window, it.part, it.cost, it.from, at =
    unpack_('<BBBBBBBBddddddd', text)
  it.first, it.countDenied = it.first == 1, it.countDenied == 1
  if not algorithms[it.algorithm] then
    algorithms[it.algorithm] = makers[it.algorithm]()
  end
  it.rule = algorithms[it.algorithm]
  it.capacity = it.algorithm == BUCKET and it.burst or it.quota
  if it.algorithm == IN_FLIGHT then
    it.id, at = unpack_('<c8', text, at)
  end
  if it.op == SETTLE then
    it.used, at = unpack_('<d', text, at)
  end
  if calendar == 1 then
    readPeriod(it, text, at)
  end
  return it
end

local function save(it)
  local ttl
  if grace then
    ttl = max(1, ceil((it.rule.expires(it) - now) / 1000) + grace)
  end
  it.rule.save(it, ttl)
end

-- admits reports whether a cost passes. An ID that holds a slot already needs no other one.
local function admits(it)
  return it.cost <= it.room and it.cost <= it.capacity or it.algorithm == IN_FLIGHT and it.rule.held(it) and true or false
end

local function take(items)
  local all = true
  for _, it in ipairs(items) do
    it.allowed = admits(it)
    all = all and it.allowed
  end
  for _, it in ipairs(items) do
    if not it.allowed then
      if it.countDenied and it.cost > 0 and it.cost <= it.capacity then
        it.rule.refuse(it, it.cost)
        it.changed = true
      elseif it.moved then
        it.rule.settle(it)
        it.changed = true
      end
    elseif all then
      it.granted = it.cost
      if it.cost > 0 then
        it.rule.charge(it, it.cost)
        it.changed = true
      end
    end
  end
end

-- share makes the cost of all the least that any has room for.
local function share(items)
  local grant = MOST
  for _, it in ipairs(items) do
    grant = min(grant, it.cost, max(1, it.room))
  end
  for _, it in ipairs(items) do
    it.cost = grant
  end
end

local function renew(it)
  if it.algorithm ~= IN_FLIGHT then
    return
  end
  it.allowed = it.rule.held(it) and true or false
  if it.allowed then
    it.rule.charge(it)
    it.granted, it.changed = 1, true
  end
end

-- apply does what does not depend on whether there is room.
local function apply(op, it)
  if op == CHARGE then
    it.granted = it.cost
    if it.cost > 0 then
      it.rule.charge(it, it.cost)
      it.changed = true
    end
  elseif op == GIVE_BACK then
    it.granted = it.rule.giveBack(it, it.cost, it.from)
    it.changed = it.granted > 0
  elseif op == RESET then
    call('DEL', it.key)
    it.moved = false
    it.rule.load(it)
  end
end

local function decide(op, items, memo)
  if op <= TAKE_UP_TO then
    if op == TAKE_UP_TO then
      share(items)
    end
    take(items)
    return
  elseif op == SETTLE then
    memo.settle(items, memo)
  end
  for _, it in ipairs(items) do
    if op == PEEK then
      it.allowed = admits(it)
    elseif op == RENEW then
      renew(it)
    else
      apply(op, it)
      local moved = it.moved -- if writing moved the state back, the answer must still tell
      it.rule.look(it, now)
      it.moved = it.moved or moved
    end
  end
end

-- All requests are read first: if now is outside of what is known of a calendar, nothing is done.
local requests, i = {}, 1
while i <= #KEYS do
  local items = { read(i) }
  local outside = items[1].outside
  for j = 1, items[1].charges - 1 do
    items[j + 1] = read(i + j)
    outside = outside or items[j + 1].outside
  end
  if outside then
    return pack('<d', now)
  end
  i = i + #items
  if items[1].remembered == 1 then
    items.hashes = i
    i = i + 2
  end
  requests[#requests + 1] = items
end

local recall, settle
local replies = { pack('<d', now) }
for _, items in ipairs(requests) do
  local op, memo, newer = items[1].op, nil, false
  if op == SETTLE then
    if not settle then
      recall, settle = makeSettlements()
    end
    memo = items.hashes and recall(items.hashes) or {}
    memo.settle, newer = settle, memo.newer
  end
  for _, it in ipairs(items) do
    it.rule.load(it)
    it.rule.look(it, now)
    it.granted, it.allowed, it.changed = 0, true, false
    newer = newer or it.newer
  end
  if not newer then
    decide(op, items, memo)
  end
  for _, it in ipairs(items) do
    if newer then
      replies[#replies + 1] = pack('<BHddd', 16, 0, 0, it.cost, now)
    else
      if it.changed then
        save(it)
      end
      local told = it.rule.told(it)
      local flags = (it.allowed and 1 or 0) + (it.moved and 2 or 0) + (it.repeated and 4 or 0) + (it.unsettled and 8 or 0)
      replies[#replies + 1] = pack('<BHddd', flags, #told, it.granted, it.cost, it.at) .. told
    end
  end
end
return table.concat(replies)
