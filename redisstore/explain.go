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

// Explain says in words what a key of this package and its value, as GET returns it, mean: for whoever looks at a server with
// redis-cli.
func Explain(name, value string) (string, error) {
	n, err := readName(name)
	if err != nil {
		return "", err
	}
	state, err := n.explain(value)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s", n, state), nil
}

// named is the name of a key, taken apart again.
type named struct {
	namespace, limit, group, key string
	shape                        rule.Shape
}

func (n named) String() string {
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
	return fmt.Sprintf("%s, %s over %v", text, n.shape.Algorithm, duration(n.shape.Window))
}

var errName = errors.New("redisstore: not the name of a key of this package")

func readName(name string) (n named, err error) {
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

// readShape reads what rule.Shape.String writes.
func readShape(text string) (s rule.Shape, err error) {
	for _, s.Algorithm = range []rule.Algorithm{rule.SlidingWindow, rule.SlidingLog, rule.FixedWindow, rule.TokenBucket} {
		fields, ok := strings.CutPrefix(text, s.Algorithm.String()+"-")
		if !ok {
			continue
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
		if err == nil && strings.HasSuffix(text, rule.First.String()) {
			s.Anchor = rule.First
		}
		if err != nil || s.String() != text {
			return s, errName
		}
		return s, nil
	}
	return s, errName
}

// explain says what a value holds.
func (n named) explain(value string) (string, error) {
	r := &reader{text: value}
	var text string
	switch n.shape.Algorithm {
	case rule.SlidingLog:
		_, _, count := r.number(), r.number(), r.number()
		return fmt.Sprintf("%d units", count), r.problem()
	case rule.TokenBucket:
		at, rest := r.number(), r.number()
		text = fmt.Sprintf("full again at %s", moment(rule.Micros(at)))
		if rest > 0 {
			text += " and a fraction of a microsecond"
		}
	default:
		limit := n.shape.Limit()
		text = fmt.Sprintf("since %s", moment(rule.Micros(r.number())))
		for i := range limit.Parts() {
			text += fmt.Sprintf("%s %d", []string{":", ","}[min(i, 1)], r.number())
		}
		text += " units, the newest part first"
	}
	if r.text != "" {
		return "", errReply
	}
	return text, r.problem()
}

func (r *reader) problem() error {
	if r.bad {
		return errors.New("redisstore: not a value of this package")
	}
	return nil
}

func moment(t rule.Micros) string {
	return t.Time().UTC().Format("2006-01-02T15:04:05.000000Z")
}

func duration(m rule.Micros) time.Duration {
	if m > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(m) * time.Microsecond
}
