package redisstore

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// Explain describes a key of this package and its value, for people who inspect a server with redis-cli. The value is
// the result of GET; it is ignored for the hashes that remember settlements.
func Explain(name, value string) (string, error) {
	name, settled, err := cutSettled(name)
	if err != nil {
		return "", err
	}
	n, err := readName(name)
	if err != nil {
		return "", err
	}
	if settled != "" {
		return fmt.Sprintf("%s: %s", n, settled), nil
	}
	state, err := n.explain(value)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s", n, state), nil
}

// parsedName is a parsed name of a key.
type parsedName struct {
	namespace, limit, group, key string
	shape                        rule.Shape
}

func (n parsedName) String() string {
	text := fmt.Sprintf("key %q", n.key)
	if n.group != "" {
		text += fmt.Sprintf(" of group %q", n.group)
	}
	if n.limit != "" {
		text += fmt.Sprintf(", limit %q", n.limit)
	}
	if n.namespace != "" {
		text += fmt.Sprintf(", namespace %q", n.namespace)
	}
	switch s := n.shape; {
	case s.Calendar != rule.NoPeriod:
		return fmt.Sprintf("%s, %s by the %s in %s", text, s.Algorithm, s.Calendar, s.Zone)
	case s.Algorithm == rule.InFlight:
		return fmt.Sprintf("%s, %s for %v", text, s.Algorithm, duration(s.Window))
	default:
		return fmt.Sprintf("%s, %s over %v", text, s.Algorithm, duration(s.Window))
	}
}

var errName = errors.New("redisstore: not the name of a key of this package")

// cutSettled removes the suffix of a hash of settlements from its name, and describes it; the description of other
// names is empty.
func cutSettled(name string) (first, settled string, err error) {
	first, end, found := strings.Cut(name, settledMark)
	if !found {
		return name, "", nil
	}
	var memory int64
	var generation int
	if _, err := fmt.Sscanf(end, "%d-%d", &memory, &generation); err != nil || generation < 0 || generation > 1 {
		return "", "", errName
	}
	return first, fmt.Sprintf("reservations settled, of %s generations, remembered for at least %v, a hash with HLEN-1 of them",
		[]string{"even", "odd"}[generation], duration(rule.Micros(memory))), nil
}

func readName(name string) (n parsedName, err error) {
	before, rest, ok := strings.Cut(name, ":{")
	tag, key, closed := strings.Cut(rest, "}")
	parts := strings.Split(before, ":")
	if !ok || !closed || len(parts) < 4 {
		return n, errName
	}
	parts = parts[len(parts)-3:]
	texts := []*string{&n.namespace, &n.limit, new(string)}
	for i, part := range parts {
		if *texts[i], err = url.PathUnescape(part); err != nil {
			return n, errName
		}
	}
	if n.shape, err = readShape(parts[2]); err != nil {
		return n, err
	}
	if tag == "%" {
		tag = ""
	}
	if tag, err = url.PathUnescape(tag); err != nil {
		return n, errName
	}
	if key == "" {
		n.key = tag
		return n, nil
	}
	n.group = tag
	n.key, err = url.PathUnescape(strings.TrimPrefix(key, ":"))
	return n, err
}

// readShape parses the result of rule.Shape.String.
func readShape(text string) (s rule.Shape, err error) {
	if text, err = url.PathUnescape(text); err != nil {
		return s, errName
	}
	for _, s.Algorithm = range []rule.Algorithm{rule.SlidingWindow, rule.SlidingLog, rule.FixedWindow, rule.TokenBucket, rule.InFlight} {
		fields, ok := strings.CutPrefix(text, s.Algorithm.String()+"-")
		if !ok {
			continue
		}
		if s, ok := readCalendar(s, fields); ok {
			return s, nil
		}
		words := strings.Split(fields, "-")
		window, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return s, errName
		}
		s.Window = rule.Micros(window)
		if s.Algorithm == rule.SlidingWindow && len(words) > 1 {
			s.Segments, err = strconv.Atoi(words[1])
		}
		if err == nil && strings.HasSuffix(text, rule.AnchorFirst.String()) {
			s.Anchor = rule.AnchorFirst
		}
		if err != nil || s.String() != text {
			return s, errName
		}
		return s, nil
	}
	return s, errName
}

// readCalendar parses the rest of the shape of a calendar window, and reports whether it is one.
func readCalendar(s rule.Shape, fields string) (rule.Shape, bool) {
	period, zone, _ := strings.Cut(fields, "-")
	for s.Calendar = rule.Day; s.Calendar <= rule.Year; s.Calendar++ {
		if s.Algorithm == rule.FixedWindow && s.Calendar.String() == period {
			s.Zone = zone
			return s, true
		}
	}
	return s, false
}

var errValue = errors.New("redisstore: not a value of this package")

// version is the newest version of values that the script writes.
const version = 1

// explain describes a value.
func (n parsedName) explain(value string) (string, error) {
	r := &reader{text: value}
	if n.shape.Algorithm == rule.SlidingLog {
		return r.explainLog(n.shape.Window)
	}
	marked := len(value)%8 != 0 // it ends with its version
	if last := len(value) - 1; marked {
		if value[last] > version {
			return "", errNewer
		}
		r.text = value[:last]
	}
	var text string
	switch n.shape.Algorithm {
	case rule.TokenBucket:
		text = r.explainBucket(n.shape.Window)
	case rule.InFlight:
		text = fmt.Sprintf("%d slots", len(value)/16)
		for first := true; r.text != "" && !r.bad; first = false {
			_ = r.word() // the ID, a hash of the reservation's ID
			if at := r.micros(); first {
				text += fmt.Sprintf(", the least recently renewed one at %s", utc(at))
			}
		}
	default:
		l := n.shape.Limit()
		text = r.explainWindow(l, marked && l.Parts() > 2)
	}
	if r.bad || r.text != "" {
		return "", errValue
	}
	return text, nil
}

// explainWindow describes the state of a window. If it is narrow, its counts have two bytes each.
func (r *reader) explainWindow(l rule.Limit, narrow bool) string {
	text := fmt.Sprintf("since %s", utc(r.micros()))
	if narrow {
		_ = r.number() // the sum of the counts
	}
	for i := range l.Parts() {
		var count int64
		if narrow {
			count = int64(r.short())
		} else {
			count = r.number()
		}
		text += fmt.Sprintf("%s %d", []string{":", ","}[min(i, 1)], count)
	}
	return text + " units, the newest part first"
}

// explainLog describes the state of a log. Some of its units may have expired.
func (r *reader) explainLog(window rule.Micros) (string, error) {
	_, kept := r.number(), r.number()
	if marked := r.byte(); r.bad {
		return "", errValue
	} else if marked > version {
		return "", errNewer
	}
	width := 4
	if window.Duration() > time.Hour {
		width = 6
	}
	return fmt.Sprintf("%d units", min(int64(len(r.text)/width), kept)), nil
}

// explainBucket describes a token bucket's state.
func (r *reader) explainBucket(window rule.Micros) string {
	at, missing, rest, ends := r.micros(), r.number(), r.number(), r.micros()
	return fmt.Sprintf("%.6g units missing at %s, full at %s at the latest",
		float64(missing)+float64(rest)/float64(max(1, window)), utc(at), utc(ends))
}

func utc(t rule.Micros) string {
	return t.Time().UTC().Format("2006-01-02T15:04:05.000000Z")
}

func duration(m rule.Micros) time.Duration {
	if m > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(m) * time.Microsecond
}
