package reply

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// fields are header fields that a middleware around this one has already written.
type fields struct {
	names *[3]string
	lines [3][]string
	retry []string // Retry-After
}

var ietfNames = [3]string{"Ratelimit-Policy", "Ratelimit", ""}

// outerFields returns the fields that are present in h, or nil if there are none.
func outerFields(h http.Header, dialect Dialect) *fields {
	names := &ietfNames
	if dialect != IETF {
		names = dialect.names()
	}
	left, retry := h[names[1]], h["Retry-After"]
	if len(left) == 0 && len(retry) == 0 {
		return nil
	}
	return &fields{names: names, lines: [3][]string{h[names[0]], left, h[names[2]]}, retry: retry}
}

// join merges the earlier fields into h.
func (f *fields) join(h http.Header, dialect Dialect, refused bool) {
	if laterRetry(f.retry, h["Retry-After"]) {
		h["Retry-After"] = f.retry
	}
	switch {
	case len(f.lines[1]) == 0 || dialect == None:
	case dialect == IETF:
		f.joinItems(h)
	case !refused && less(f.lines[1], h[f.names[1]]):
		for i, name := range f.names {
			h[name] = f.lines[i]
		}
	}
}

// joinItems adds the items of h to the earlier ones. A limit has one item: of two, the one with less remaining.
func (f *fields) joinItems(h http.Header) {
	policies, items := splitItems(f.lines[0]), splitItems(f.lines[1])
	if len(policies) != len(items) { // written by other software; append without matching
		h[f.names[0]] = append(slices.Clip(f.lines[0]), h[f.names[0]]...)
		h[f.names[1]] = append(slices.Clip(f.lines[1]), h[f.names[1]]...)
		return
	}
	own := splitItems(h[f.names[1]])
	for i, policy := range splitItems(h[f.names[0]]) {
		switch at := slices.Index(policies, policy); {
		case at < 0:
			policies, items = append(policies, policy), append(items, own[i])
		case remainingOf(own[i]) <= remainingOf(items[at]):
			items[at] = own[i]
		}
	}
	h[f.names[0]] = []string{strings.Join(policies, ", ")}
	h[f.names[1]] = []string{strings.Join(items, ", ")}
}

// splitItems splits the lines of a structured field's list at the commas that are not in a string.
func splitItems(lines []string) (items []string) {
	for _, line := range lines {
		from, quoted := 0, false
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case c == ',' && !quoted:
				items = append(items, strings.TrimSpace(line[from:i]))
				from = i + 1
			}
		}
		items = append(items, strings.TrimSpace(line[from:]))
	}
	return items
}

// remainingOf returns the parameter r of an item of RateLimit.
func remainingOf(item string) int64 {
	_, r, _ := strings.Cut(item[strings.LastIndexByte(item, '"')+1:], ";r=") // a name may contain ;r= too
	digits, _, _ := strings.Cut(r, ";")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// less reports whether a is a smaller number than b.
func less(a, b []string) bool {
	m, ok := number(a)
	n, also := number(b)
	return ok && also && m < n
}

// laterRetry reports whether a is a waiting time and b is not one, or is a shorter one.
func laterRetry(a, b []string) bool {
	_, ok := number(a)
	return ok && (len(b) == 0 || less(b, a))
}

func number(lines []string) (int64, bool) {
	if len(lines) != 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(lines[0], 10, 64)
	return n, err == nil
}
