package slidegate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ParseLimit reads a limit as people write it: a quota, "/" or "per", and a window, which is a Go duration, a bare unit
// (s, m, h, d, w, or second, minute, ...) or a number of days or weeks (7d). Choices may follow, separated by spaces:
// an algorithm's name, segments=6, overlap=whole, anchor=first, burst=200, count-denied, name=login.
//
//	100/1m
//	10/s
//	5000 per 24h
//	20/1s token-bucket burst=40
//
// The error is a LimitError.
func ParseLimit(text string) (Limit, error) {
	l, err := parseLimit(text)
	if err == nil {
		err = l.Check()
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

// MustParseLimit is ParseLimit for limits that are constants of the program: it panics where that returns an error.
func MustParseLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

func parseLimit(text string) (Limit, error) {
	words, err := splitWords(text)
	if err != nil {
		return Limit{}, err
	}
	var l Limit
	words, err = l.parseRate(words)
	if err != nil {
		return Limit{}, err
	}
	for _, word := range words {
		if err := l.parseChoice(word); err != nil {
			return Limit{}, err
		}
	}
	return l, nil
}

// parseRate reads "100/1m", "100 / 1m" or "100 per 1m" and returns the words after it.
func (l *Limit) parseRate(words []string) ([]string, error) {
	var quota, window string
	switch {
	case len(words) >= 3 && (words[1] == "per" || words[1] == "/"):
		quota, window, words = words[0], words[2], words[3:]
	case len(words) >= 2 && strings.HasPrefix(words[1], "/"):
		quota, window, words = words[0], words[1][1:], words[2:]
	case len(words) >= 2 && strings.HasSuffix(words[0], "/"):
		quota, window, words = strings.TrimSuffix(words[0], "/"), words[1], words[2:]
	case len(words) >= 1:
		var ok bool
		if quota, window, ok = strings.Cut(words[0], "/"); ok {
			words = words[1:]
			break
		}
		fallthrough
	default:
		return nil, parseError("write a quota and a window, such as 100/1m or 5000 per 24h")
	}
	var err error
	if l.Quota, err = parseUnits("quota", quota); err != nil {
		return nil, err
	}
	l.Window, err = parseWindow(window)
	return words, err
}

// parseUnits reads a number of units, which may be written in groups: 1_000_000.
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

func parseWindow(text string) (time.Duration, error) {
	digits := strings.TrimRightFunc(text, unicode.IsLetter)
	unit, known := windowUnits[text[len(digits):]]
	if !known { // "ms" is known, and not a plural
		unit, known = windowUnits[strings.TrimSuffix(text[len(digits):], "s")]
	}
	if known && digits == "" {
		return unit, nil
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && known && n >= 0 && n <= int64(1<<62)/int64(unit) {
		return time.Duration(n) * unit, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, parseError("window: %q is not a length of time such as 30s, 1m, 24h or 7d", text)
	}
	return d, nil
}

func (l *Limit) parseChoice(word string) error {
	name, value, _ := strings.Cut(word, "=")
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
		return l.Overlap.UnmarshalText([]byte(value))
	case "anchor":
		return l.Anchor.UnmarshalText([]byte(value))
	case "algorithm":
		return l.Algorithm.UnmarshalText([]byte(value))
	case "name":
		l.Name = value
		return nil
	case "count-denied":
		if value != "" {
			break
		}
		l.CountDenied = true
		return nil
	}
	if l.Algorithm.UnmarshalText([]byte(word)) == nil {
		return nil
	}
	return parseError("%q is not a choice: there are sliding-window, sliding-log, fixed-window, token-bucket, "+
		"segments=N, overlap=up|down|whole, anchor=clock|first, burst=N, count-denied, name=TEXT", word)
}

// splitWords splits at spaces outside of the quotes that a name may have.
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

// String returns l as ParseLimit reads it: "100/1m", followed by the choices that are not the defaults.
func (l Limit) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%s", l.Quota, windowText(l.Window))
	if l.Algorithm != SlidingWindow {
		fmt.Fprintf(&b, " %s", l.Algorithm)
	}
	if l.Segments != 0 {
		fmt.Fprintf(&b, " segments=%d", l.Segments)
	}
	if l.Overlap != OverlapUp {
		fmt.Fprintf(&b, " overlap=%s", l.Overlap)
	}
	if l.Anchor != AnchorClock {
		fmt.Fprintf(&b, " anchor=%s", l.Anchor)
	}
	if l.Burst != 0 {
		fmt.Fprintf(&b, " burst=%d", l.Burst)
	}
	if l.CountDenied {
		b.WriteString(" count-denied")
	}
	if l.Name != "" {
		fmt.Fprintf(&b, " name=%s", strconv.Quote(l.Name))
	}
	return b.String()
}

// windowText is Duration.String without the zero units that it ends in: 1m, not 1m0s.
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

// MarshalText returns String, so that limits read well in JSON and YAML.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what ParseLimit reads.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}
