-- All requests -------------------------------------------------------------------------------------------------------

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
grace = grace >= 0 and grace -- false to keep states forever

local TAKE, TAKE_UP_TO, PEEK, CHARGE, GIVE_BACK, RESET, SETTLE, RENEW = 0, 1, 2, 3, 4, 5, 6, 7
local WINDOW, LOG, FIXED, BUCKET, IN_FLIGHT, DEFAULT = 0, 1, 2, 3, 4, 5 -- DEFAULT: none is named
local UP, DOWN, WHOLE = 0, 1, 2
local VERSION = byte(MARK) -- the version of values

-- mulDivAny is muldiv for any b. Where the quotient is not below 2^53 the result is not exact, but also not below 2^53.
local function mulDivAny(a, b, c)
  local whole = floor(b / c)
  local quotient, rest = muldiv(a, b - whole * c, c)
  return quotient + a * whole, rest
end

-- otherVersion returns the version of a value that ends with it, if it is another one; otherwise false.
local function otherVersion(value)
  local version = #value % 8 ~= 0 and byte(value, -1)
  return version ~= VERSION and version
end

-- The versions of values that have it in their header, which is also their form.
local FORMS = { [LOG] = { true }, [WINDOW] = { [NARROW_FORM] = true, [WIDE_FORM] = true }, [DEFAULT] = { true, true, true } }

-- A value of which units are held begins with a header of its own, and the holds: 32 bytes each. What follows is the value without
-- them, and empty if there would be none.
local HOLD = 32

-- readHolds sets it.holds to the holds of a value, the one that ends first first, and returns what follows them.
local function readHolds(it, value)
  local at = HEADER + 1
  for n = 1, (unpack_('<d', value)) do
    local hold = {}
    hold.id, hold.units, hold.ends, hold.length, at = unpack_('<c8ddd', value, at)
    it.holds[n] = hold
  end
  it.wrapped = true
  return #value >= at and sub(value, at)
end

-- get returns the value of a charge's key without the holds, or nothing if there is none or it has another version.
local function get(it)
  local value = call('GET', it.key)
  it.version, it.form, it.holds, it.wrapped = false, nil, {}, false
  if value and #value >= HEADER + HOLD and it.algorithm ~= IN_FLIGHT then
    local form = byte(value, HEADER)
    if form == HELD_FORM then
      value = readHolds(it, value)
    else
      it.version = not it.forms and form -- without holds, no value of these algorithms is that long
    end
  end
  if value and it.forms then
    it.form = byte(value, HEADER) or 0
    it.version = not it.forms[it.form] and it.form
  elseif value and not it.version then
    it.version = otherVersion(value)
  end
  return not it.version and value
end

-- after returns how many units are later than t. The i-th unit, counted from the oldest, has the time timeOf(it, i).
local function after(it, t, timeOf)
  local low, high = 0, it.count -- the first later one is in between
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

-- lookBack evaluates the units of a log, or slots, at now. Where the clock had jumped ahead, their times are moved
-- back.
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

-- encodeBack returns how many units count, the newest one's time, and the time of the one that must expire before the
-- cost fits, or before one unit does if the request was allowed.
local function encodeBack(it, timeOf)
  local blocking = now - it.window -- nothing to wait for
  local excess = it.live - (it.quota - (it.allowed and 1 or it.cost))
  if excess > 0 and excess <= it.live then
    blocking = timeOf(it, it.count - it.live + excess - 1) - it.behind
  end
  return pack('<ddd', it.live, it.live > 0 and it.newest - it.behind or 0, blocking)
end

-- lastOf returns when the key of a state that ends at e expires, without the grace. A state that ends later with every
-- charge is kept until the next eighth of a window: then most charges leave the TTL of the key unchanged, which is slow
-- to change.
local function lastOf(it, e)
  return it.cell and e - e % it.cell + it.cell or e
end

-- The algorithms are created when a charge needs them: creating the functions of all of them would take longer than
-- most decisions.

-- Windows ------------------------------------------------------------------------------------------------------------

-- A calendar window comes with the boundaries of the current period.
local function makeWindow()
  local window = {}

  -- read reads a value, if there is one.
  function window.read(it, value)
    it.start, it.counts = nil, {}
    if value then
      local format, width = '<d', 8
      if it.form == NARROW_FORM then
        format, width = '<H', 2
      end
      it.start = unpack_('<d', value)
      for i = 1, it.parts do
        it.counts[i] = unpack_(format, value, (it.forms and COUNTS or 8) + width * (i - 1) + 1)
      end
    end
  end

  function window.load(it)
    window.read(it, get(it))
  end

  function window.startAt(it, now)
    if it.first then
      return now
    end
    return now - now % it.part
  end

  -- weigh returns the weight of a count of which covered/part lies in the window.
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

  -- place finds where the current part starts at now, and by how many parts the counts lag behind it.
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

  -- placeInCalendar is place for a calendar window. A state that starts later than the period was written by a program
  -- with other zone data, and keeps its start.
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
    it.counts[1] = min(it.counts[1] + n, MAX)
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

  -- expires returns when a state ends; for one that a clock left in a later period of the calendar, when it has
  -- certainly ended.
  function window.expires(it)
    if not it.start then
      return 0
    elseif it.begins and it.start < it.ends then
      return it.ends
    end
    return it.start + it.parts * it.part
  end

  function window.encode(it)
    if not it.start then
      return ''
    end
    local value = { pack('<d', it.start) }
    for i = 1, it.parts do
      value[i + 1] = pack('<d', it.counts[i])
    end
    return table.concat(value)
  end

  -- inParts returns the value of a window of several parts: the start, the sum of its counts, the place of the oldest one that
  -- is not 0, and 2 bytes per count; or, if a count needs more, 8 bytes per count and no sum.
  local function inParts(it)
    local sum, counts, form, format, oldest = 0, {}, NARROW_FORM, '<H', 0
    for i = 1, it.parts do
      if it.counts[i] > NARROW then
        form, format = WIDE_FORM, '<d'
      end
      if it.counts[i] > 0 then
        sum, oldest = sum + it.counts[i], i - 1
      end
    end
    for i = 1, it.parts do
      counts[i] = pack(format, it.counts[i])
    end
    return pack('<ddBB', it.start, form == NARROW_FORM and sum or 0, form, oldest) .. table.concat(counts)
  end

  function window.value(it)
    if not it.start then
      return ''
    end
    local value = it.forms and inParts(it) or window.encode(it)
    return it.begins and value .. MARK or value
  end

  return window
end

-- Token bucket -------------------------------------------------------------------------------------------------------

-- The state is what is missing from a full bucket as of a time, its debt, in whole units and a rest in 1/window of a
-- unit, and when the state ends. A microsecond refills quota/window of a unit.
local function makeBucket()
  local bucket = {}

  function bucket.load(it)
    local value = get(it)
    it.start, it.missing, it.rest, it.ends = nil, 0, 0, 0
    if value then
      it.start, it.missing, it.rest, it.ends = unpack_('<dddd', value)
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

  -- refilled returns how much a number of microseconds refills.
  local function refilled(it, micros)
    return mulDivAny(micros, it.quota, it.window)
  end

  -- deepest returns how many units can be missing because of a charge under this limit: one window's refill beyond
  -- empty. More are missing only if they were charged under another limit.
  local function deepest(it)
    return min(it.burst + it.quota, MAX)
  end

  -- lookDebt returns the debt at now. It sets it.untilTime, when the state ends, if anything is missing.
  local function lookDebt(it, now)
    local ahead = it.start - now
    if ahead > 0 then
      it.moved = ahead > it.window
      it.at = it.moved and now or it.start
      it.untilTime = it.moved and it.ends - ahead or it.ends
      return it.missing, it.rest
    end
    local back, backRest = refilled(it, -ahead)
    if now >= it.ends or not above(it.missing, it.rest, back, backRest) then
      return 0, 0
    end
    it.untilTime = it.ends
    return minus(it, it.missing, it.rest, back, backRest)
  end

  function bucket.look(it, now)
    it.at, it.moved, it.untilTime = now, false, 0
    local debt, rest = 0, 0
    if it.missing > 0 or it.rest > 0 then
      debt, rest = lookDebt(it, now)
    end
    it.debt, it.debtRest = debt, rest
    if above(debt, rest, it.burst, 0) then
      it.room = -1 -- overdrawn; the amount matters for the answer, not for the decision
    else
      it.room = it.burst - debt - (rest > 0 and 1 or 0)
    end
  end

  -- settle moves a state that the clock left far ahead back to now, with its end.
  function bucket.settle(it)
    if it.moved then
      it.start, it.ends = it.at, it.untilTime
    end
  end

  -- raise writes a debt that a charge has raised. The state then ends a window later, or when the bucket is full, but
  -- not before it ended so far.
  local function raise(it, debt, rest)
    it.start, it.missing, it.rest = it.at, debt, rest
    local most = deepest(it)
    if above(debt, rest, most, 0) then
      debt, rest = most, 0
    end
    local micros, fraction = mulDivAny(debt, it.window, it.quota)
    micros = micros + ceil((fraction + rest) / it.quota)
    it.ends = max(it.untilTime, it.at + max(it.window, micros))
  end

  function bucket.charge(it, n)
    local most = deepest(it)
    if above(it.debt + n, it.debtRest, most, 0) then -- as much as fits, but a deeper debt stays
      if above(most, 0, it.debt, it.debtRest) then
        raise(it, most, 0)
      else
        raise(it, it.debt, it.debtRest)
      end
    else
      raise(it, it.debt + n, it.debtRest)
    end
  end

  -- refuse empties the bucket, and reports whether that changed anything.
  function bucket.refuse(it)
    if above(it.burst, 0, it.debt, it.debtRest) then
      raise(it, it.burst, 0)
      return true
    end
    return false
  end

  -- giveBack undoes a charge as far as it has not been refilled since. It subtracts from the debt as of it.start: the
  -- refill since then is left to the limit that decides next, which may be another one.
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
    bucket.settle(it)
    it.missing, it.rest = minus(it, it.missing, it.rest, back, backRest)
    return back + (backRest > 0 and 1 or 0)
  end

  function bucket.expires(it)
    return it.ends
  end

  function bucket.value(it)
    if it.missing == 0 and it.rest == 0 then
      return '' -- a full bucket is as if it had never been used
    end
    return pack('<dddd', it.start, it.missing, it.rest, it.ends) .. MARK
  end

  function bucket.encode(it)
    if it.start then
      return pack('<dddd', it.start, it.missing, it.rest, it.ends)
    end
    return ''
  end

  return bucket
end
