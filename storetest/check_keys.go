package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkKeys: keys and groups are any bytes of any length, and no two addresses share state, however similar they look.
func checkKeys(t testing.TB, s *suite) {
	p := s.pair(t)
	limit := p.bind(slidegate.Limit{Name: "keys", Quota: 1_000_000, Window: time.Hour})
	if limit == nil {
		t.Skip("the store rejects a plain limit")
	}
	p.title = "groups and keys"
	checkDistinct(p, groupsAndKeys(limit))
	p.title = "namespaces and names"
	checkDistinct(p, namespacesAndNames(p))
	p.title = "hostile keys"
	var hostile, huge []subject
	for _, key := range hostileKeys(limit.Prefix()) {
		hostile = append(hostile, subject{limit, "", key})
	}
	checkDistinct(p, hostile)
	p.title = "huge keys"
	for _, key := range hugeKeys() {
		huge = append(huge, subject{limit, "", key})
	}
	huge = append(huge, subject{limit, huge[0].key, "in a huge group"}, subject{limit, huge[1].key, "in a huge group"})
	checkDistinct(p, huge)
}

// checkDistinct charges every address a different amount and compares what remains, which shows addresses that share state.
// Then it resets some, which must leave the others alone.
func checkDistinct(p *pair, subjects []subject) {
	p.t.Helper()
	p.forgetSubjects()
	send := func(op rule.Op, s subject, cost int64) {
		p.t.Helper()
		p.both(op, s.group, store.Charge{Limit: s.limit, Key: s.key, Cost: cost})
	}
	for i, s := range subjects {
		send(rule.Take, s, int64(1+i))
	}
	for i, s := range subjects {
		send(rule.Peek, s, 1)
		if i%3 == 0 {
			send(rule.Reset, s, 0)
		}
	}
	for _, s := range subjects {
		send(rule.Peek, s, 1)
	}
}

// hostileKeys returns keys that some component may confuse.
func hostileKeys(prefix string) []string {
	return []string{
		"", " ", "\x00", "\x00\x00", "a", "a\x00", "a\x00b", "a ", " a", "A", "a\n", "a\r\n", "\ta",
		"0", "00", "0.0", "-0", "null", "nil", "NULL", "true", "\\N", "''", "'; DROP TABLE slidegate; --", `"a"`, `\x61`,
		"%61",
		"a:b", "a::b", ":a", "a:", "a/b", "a//b", "a/../b", "a.b", "a|b", "a,b", "a;b", "a*", "a?", "[a]", "a>", "$a", "a=b",
		"{a}", "{a}b", "a{b}", "{}", "{}a", "{{a}}", "}{", "{a", "a}",
		"\u00e9", "e\u0301", "\u00c9", "E\u0301", "\u212b", "\u00c5", "ß", "ss", "SS", "ı", "i", "İ", "ﬁ", "fi",
		"\ufeffa", "\u200ba",
		"\xff", "\xfe", "\xff\xff", "\xc3", "\xc3\x28", "\xed\xa0\x80", "\ufffd", "\ufffd\ufffd", "?", "\xc0\x80", "\xf8a",
		prefix, prefix + "a", "keys", strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat("a", 257),
	}
}

// hugeKeys returns keys that differ at their beginning, at their end, in the middle and in length.
func hugeKeys() []string {
	const size = 1 << 20
	huge := strings.Repeat("k", size)
	return []string{
		huge, "K" + huge[1:], huge[:size-1] + "K", huge[:size/2] + "K" + huge[size/2+1:], huge + "k",
		strings.Repeat("k", 1<<16), strings.Repeat("k", 1<<16-1), strings.Repeat("k", 1<<16+1),
	}
}

// groupsAndKeys returns groups and keys that make the same text if they are concatenated, with or without a separator.
func groupsAndKeys(limit *store.Limit) []subject {
	var subjects []subject
	for _, pair := range [][2]string{
		{"", "ab"}, {"a", "b"}, {"ab", ""}, {"b", "a"}, {"A", "b"}, {"a ", "b"},
		{"a:", "b"}, {"a", ":b"}, {"", "a:b"}, {"a:b", ""}, {"a:b", "c"}, {"a", "b:c"}, {"a::b", ""}, {"a", ":"}, {"a:", ""},
		{"a/", "b"}, {"a", "/b"}, {"", "a/b"}, {"a|", "b"}, {"a", "|b"}, {"a.", "b"}, {"a", ".b"},
		{"{a}", "b"}, {"", "{a}b"}, {"{a", "}b"}, {"a}", "b"}, {"a", "}b"}, {"", "{a}:b"}, {"}", "{a"}, {"{}", "ab"},
		{"a\x00", "b"}, {"a", "\x00b"}, {"", "a\x00b"}, {"a\x00b", ""}, {"a\n", "b"}, {"a", "\nb"},
		{"\x01a", "b"}, {"", "\x01ab"}, {"\x01", "ab"}, {"1:a", "b"}, {"", "1:ab"}, {"", "1:a1:b"},
		{"\xff", "b"}, {"\xfe", "b"}, {"\ufffd", "b"}, {"\xc3", "\xa9"}, {"", "\u00e9"}, {"\u00e9", ""}, {"e\u0301", ""},
	} {
		subjects = append(subjects, subject{limit, pair[0], pair[1]})
	}
	return subjects
}

// namespacesAndNames returns limits whose namespace, name, group and key make the same text.
func namespacesAndNames(p *pair) []subject {
	var subjects []subject
	for _, s := range [][4]string{
		{"", "ab", "", "c"}, {"a", "b", "", "c"}, {"ab", "", "", "c"}, {"a", "", "", "bc"}, {"", "", "", "abc"},
		{"", "", "abc", ""}, {"", "a", "b", "c"}, {"", "abc", "", ""}, {"abc", "", "", ""},
		{"A", "b", "", "c"}, {"a", "B", "", "c"},
		{":a", "b", "", "c"}, {":a:b", "", "", "c"}, {"", "a:b", "", "c"}, {"", "a", "", "b:c"}, {"", "a", ":b", "c"},
		{"\x00a", "b", "", "c"}, {"", "\x00ab", "", "c"}, {"", "{a}b", "", "c"}, {"", "b", "{a}", "c"}, {"", "b", "a", "c"},
		{"", "\xff", "", "c"}, {"", "\xfe", "", "c"}, {"", "\ufffd", "", "c"}, {"", strings.Repeat("n", 1000), "", "c"},
		{"", strings.Repeat("n", 1001), "", "c"}, {"", "n", "", "c"}, {"", "n ", "", "c"}, {"", "n\x00", "", "c"},
	} {
		limit := p.bindIn(p.namespace+s[0], slidegate.Limit{Name: s[1], Quota: 1_000_000, Window: time.Hour})
		if limit != nil {
			subjects = append(subjects, subject{limit, s[2], s[3]})
		}
	}
	return subjects
}
