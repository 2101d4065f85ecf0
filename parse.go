package slidegate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slidegate/slidegate/rule"
)

// ParseLimit reads a limit written as text: a quota, "/" or "per", and a window, which is a Go duration, a bare unit (s, m,
// h, d, w, or second, minute, ...), a number of days or weeks (7d), or a calendar period (month, year, and with a zone also
// day and week). Slots are written as their number, in-flight and ttl=30s. Options may follow, separated by spaces: an
// algorithm's name, segments=6, overlap=whole, anchor=first, burst=200, hold=5m, zone=Europe/Berlin, count-refused, lease,
// name=login.
//
//	100/1m
//	10/s
//	5000 per 24h
//	20/1s token-bucket burst=40
//	1000/month zone=Europe/Berlin
//	50 in-flight ttl=30s
//
// A day without a zone is 24 hours and a week is 168; a month or year without a zone is a UTC one. A limit that names
// segments, overlap or anchor, even with the default value, and neither an algorithm nor a calendar period, is a
// sliding-window.
//
// The error is a LimitError.
func ParseLimit(text string) (Limit, error) {
	l, err := parseLimit(text)
	if err == nil {
		_, err = l.compile()
	}
	if err != nil {
		var checked *LimitError
		if errors.As(err, &checked) {
			err = checked.Err
		}
		return Limit{}, &LimitError{Text: text, Err: err}
	}
	return l, nil
}

// MustParseLimit is like ParseLimit but panics if ParseLimit would return an error. It is for limits that are constants of
// the program.
func MustParseLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

// limitText is a limit that is being parsed, and what its text has named so far.
type limitText struct {
	Limit
	window  string // the window as written; empty for slots
	ttl     bool   // the text names ttl
	sliding bool   // the text names an option that only sliding windows have
}

func parseLimit(text string) (Limit, error) {
	words, err := splitWords(text)
	if err != nil {
		return Limit{}, err
	}
	var l limitText
	words, err = l.parseRate(words)
	if err != nil {
		return Limit{}, err
	}
	for _, word := range words {
		if err := l.parseOption(word); err != nil {
			return Limit{}, err
		}
	}
	if err := l.finish(); err != nil {
		return Limit{}, err
	}
	return l.Limit, nil
}

// parseRate reads "100/1m", "100 / 1m", "100 per 1m" or the number of slots, and returns the words after it.
func (l *limitText) parseRate(words []string) ([]string, error) {
	var quota string
	switch {
	case len(words) >= 3 && (words[1] == "per" || words[1] == "/"):
		quota, l.window, words = words[0], words[2], words[3:]
	case len(words) >= 2 && strings.HasPrefix(words[1], "/"):
		quota, l.window, words = words[0], words[1][1:], words[2:]
	case len(words) >= 2 && strings.HasSuffix(words[0], "/"):
		quota, l.window, words = strings.TrimSuffix(words[0], "/"), words[1], words[2:]
	case len(words) >= 1 && strings.Contains(words[0], "/"):
		quota, l.window, _ = strings.Cut(words[0], "/")
		words = words[1:]
	case len(words) >= 2 && slices.ContainsFunc(words[1:], isInFlight):
		n, err := parseUnits("quota", words[0])
		l.Quota = n
		return words[1:], err
	default:
		return nil, parseError("write a quota and a window, such as 100/1m or 5000 per 24h, or slots, such as 50 in-flight ttl=30s")
	}
	var err error
	if l.Quota, err = parseUnits("quota", quota); err != nil {
		return nil, err
	}
	if l.Calendar, err = parsePeriod(l.window); err == nil && l.Calendar == 0 {
		l.Window, err = parseWindow("window", l.window)
	}
	return words, err
}

func isInFlight(word string) bool { return strings.TrimPrefix(word, "algorithm=") == InFlight.String() }

// finish completes what depends on several words, and rejects combinations that are invalid.
func (l *limitText) finish() error {
	if l.Zone != "" && l.Calendar == 0 && l.window != "" {
		if err := l.useCalendar(); err != nil {
			return err
		}
	}
	switch slots := l.Algorithm == InFlight; {
	case slots && l.Calendar != 0:
		return parseError("window: an in-flight limit has a time to live instead; write %d in-flight ttl=30s", l.Quota)
	case slots && l.window != "":
		return parseError("window: an in-flight limit has a time to live instead; write %d in-flight ttl=%s", l.Quota, l.window)
	case slots && !l.ttl:
		return parseError("ttl: missing; it is how long a slot is held unless it is renewed; write %d in-flight ttl=30s", l.Quota)
	case l.ttl && !slots:
		return parseError("ttl: applies to in-flight limits only; leave it out, or write %d in-flight ttl=%s",
			l.Quota, windowText(l.Window))
	case l.sliding && l.Algorithm == rule.DefaultAlgorithm && l.Calendar == 0 &&
		l.Overlap == rule.OverlapUp && l.Anchor == rule.AnchorClock && l.Segments == 0:
		l.Algorithm = SlidingWindow // the text names an option of it
	}
	return nil
}

// useCalendar turns a day or a week into a calendar period if the text names a zone.
func (l *limitText) useCalendar() error {
	switch strings.TrimSuffix(strings.TrimPrefix(l.window, "1"), "s") {
	case "d", "day":
		l.Calendar = rule.Day
	case "w", "week":
		l.Calendar = rule.Week
	default:
		return parseError("zone: applies to a day, week, month or year, not to %s; write, for example, %d/day zone=%s",
			l.window, l.Quota, l.Zone)
	}
	l.Window = 0
	return nil
}

// parsePeriod reads a month or a year. It returns 0 if text is a duration, as a day or a week without a zone is.
func parsePeriod(text string) (rule.Period, error) {
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	var period rule.Period
	switch strings.TrimSuffix(text[len(number):], "s") {
	case "month":
		period = rule.Month
	case "y", "year":
		period = rule.Year
	default:
		return 0, nil
	}
	if number != "" && number != "1" {
		return 0, parseError("window: %q is not one calendar %s; write %s, or a duration such as 60d",
			text, period, period)
	}
	return period, nil
}

// parseUnits reads a number of units, which may be grouped with underscores: 1_000_000.
func parseUnits(field, text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		return 0, parseError("%s: %q is not a whole number", field, text)
	}
	return n, nil
}

var windowUnits = map[string]time.Duration{
	"ms": time.Millisecond, "millisecond": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

func parseWindow(field, text string) (time.Duration, error) {
	digits := strings.TrimRightFunc(text, unicode.IsLetter)
	unit, known := windowUnits[text[len(digits):]]
	if !known { // "ms" is known, and is not a plural
		unit, known = windowUnits[strings.TrimSuffix(text[len(digits):], "s")]
	}
	if known && digits == "" {
		return unit, nil
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && known && n >= 0 && n <= int64(1<<62)/int64(unit) {
		return time.Duration(n) * unit, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil && text != "" && strings.Trim(text, "0123456789") == "" {
		return 0, parseError("%s: %q has no unit; write it right after the number, as in %ss or %sm", field, text, text, text)
	}
	if err != nil {
		return 0, parseError("%s: %q is not a duration such as 30s, 1m, 24h or 7d", field, text)
	}
	return d, nil
}

func (l *limitText) parseOption(word string) error {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "segments", "overlap", "anchor":
		l.sliding = true
	}
	switch name {
	case "segments":
		n, err := strconv.Atoi(value)
		if err != nil {
			return parseError("segments: %q is not a whole number", value)
		}
		l.Segments = n
		return nil
	case "burst":
		var err error
		l.Burst, err = parseUnits("burst", value)
		return err
	case "overlap":
		return parseName(&l.Overlap, name, value, rule.OverlapUp, OverlapDown, OverlapWhole)
	case "anchor":
		return parseName(&l.Anchor, name, value, rule.AnchorClock, AnchorFirst)
	case "algorithm":
		return l.parseAlgorithm(value)
	case "ttl":
		var err error
		l.Window, err = parseWindow("ttl", value)
		l.ttl = true
		return err
	case "hold":
		var err error
		if l.Hold, err = parseWindow("hold", value); err == nil && l.Hold == 0 {
			err = parseError("hold: must be 1ms to 5 years (43920h), not 0; leave it out to charge reservations at once")
		}
		return err
	case "zone":
		if l.Zone = value; value == "" {
			return parseError("zone: missing; name a time zone, such as zone=Europe/Berlin")
		}
		return nil
	case "name":
		l.Name = value
		return nil
	case "count-refused":
		if value != "" {
			break
		}
		l.CountRefused = true
		return nil
	case "lease":
		if value != "" {
			break
		}
		l.Lease = true
		return nil
	}
	if name == "notify" {
		return parseError("notify stands last, and only in the limits of a policy file")
	}
	if word == rule.DefaultAlgorithm.String() || l.parseAlgorithm(word) == nil {
		return l.parseAlgorithm(word)
	}
	return parseError("unknown option %q; want %s with ttl=TIME, "+
		"segments=N, overlap=up|down|whole, anchor=clock|first, burst=N, hold=TIME, zone=ZONE, count-refused, lease, name=TEXT", word, namesOf(rule.Algorithms))
}

func (l *limitText) parseAlgorithm(name string) error {
	if err := parseName(&l.Algorithm, "algorithm", name, rule.Algorithms...); err != nil {
		return fmt.Errorf("%w; for the default, leave it out", err)
	}
	return nil
}

// parseName sets to to the value with the given name.
func parseName[T fmt.Stringer](to *T, field, name string, among ...T) error {
	for _, value := range among {
		if value.String() == name {
			*to = value
			return nil
		}
	}
	return parseError("%s: must be one of %s, not %q", field, namesOf(among), name)
}

// namesOf returns the names of values, separated by commas.
func namesOf[T fmt.Stringer](values []T) string {
	var names []string
	for _, value := range values {
		names = append(names, value.String())
	}
	return strings.Join(names, ", ")
}

// splitWords splits text at spaces outside the quotes that a name may have.
func splitWords(text string) ([]string, error) {
	var words []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if quoted, ok := strings.CutPrefix(text, `name="`); ok {
			literal, err := strconv.QuotedPrefix(`"` + quoted)
			if err != nil {
				return nil, parseError("name: the quotes are not closed")
			}
			name, _ := strconv.Unquote(literal)
			words = append(words, "name="+name)
			text = quoted[len(literal)-1:]
			continue
		}
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		words = append(words, text[:end])
		text = text[end:]
	}
	return words, nil
}

func parseError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLimit}, args...)...)
}

// String returns l in the form that ParseLimit reads: "100/1m", followed by the options that differ from the defaults. It
// names the algorithm if l does.
func (l Limit) String() string {
	var b strings.Builder
	switch {
	case l.Algorithm == InFlight:
		fmt.Fprintf(&b, "%d %s ttl=%s", l.Quota, l.Algorithm, windowText(l.Window))
	case l.Calendar != 0:
		fmt.Fprintf(&b, "%d/%s", l.Quota, l.Calendar)
	default:
		fmt.Fprintf(&b, "%d/%s", l.Quota, windowText(l.Window))
	}
	if l.Algorithm != rule.DefaultAlgorithm && l.Algorithm != InFlight {
		fmt.Fprintf(&b, " %s", l.Algorithm)
	}
	switch {
	case l.Zone != "":
		fmt.Fprintf(&b, " zone=%s", l.Zone)
	case l.Calendar == rule.Day || l.Calendar == rule.Week: // without a zone it would be read as a duration
		b.WriteString(" zone=UTC")
	}
	if l.Segments != 0 {
		fmt.Fprintf(&b, " segments=%d", l.Segments)
	}
	if l.Overlap != rule.OverlapUp {
		fmt.Fprintf(&b, " overlap=%s", l.Overlap)
	}
	if l.Anchor != rule.AnchorClock {
		fmt.Fprintf(&b, " anchor=%s", l.Anchor)
	}
	if l.Burst != 0 {
		fmt.Fprintf(&b, " burst=%d", l.Burst)
	}
	if l.Hold != 0 {
		fmt.Fprintf(&b, " hold=%s", windowText(l.Hold))
	}
	if l.CountRefused {
		b.WriteString(" count-refused")
	}
	if l.Lease {
		b.WriteString(" lease")
	}
	if l.Name != "" {
		fmt.Fprintf(&b, " name=%s", strconv.Quote(l.Name))
	}
	return b.String()
}

// windowText is Duration.String without trailing zero units: 1m, not 1m0s.
func windowText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// MarshalText returns String, so that limits are readable in JSON and YAML.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is the inverse of MarshalText; it accepts what ParseLimit accepts.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}
