package resp

import (
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// These functions append replies to the output.

func appendNumber(to []byte, kind byte, n int64) []byte {
	to = append(to, kind)
	to = strconv.AppendInt(to, n, 10)
	return append(to, '\r', '\n')
}

func appendInt(to []byte, n int64) []byte { return appendNumber(to, ':', n) }

func appendArray(to []byte, length int) []byte { return appendNumber(to, '*', int64(length)) }

func appendBulk[text string | []byte](to []byte, s text) []byte {
	to = appendNumber(to, '$', int64(len(s)))
	to = append(to, s...)
	return append(to, '\r', '\n')
}

// appendSimple writes a short text without line breaks.
func appendSimple(to []byte, kind byte, text string) []byte {
	to = append(to, kind)
	to = append(to, text...)
	return append(to, '\r', '\n')
}

// oneLine replaces line breaks with blanks, since an error ends with its line.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// appendError writes an error: a code in capitals, and a text.
func appendError(to []byte, kind, text string) []byte {
	return appendSimple(to, '-', kind+" "+oneLine.Replace(text))
}

// appendMap begins a map of n names and values; before RESP3, an array of twice that length.
func (c *conn) appendMap(n int) {
	if c.resp3 {
		c.out = appendNumber(c.out, '%', int64(n))
		return
	}
	c.out = appendArray(c.out, 2*n)
}

// appendSet begins a set of n elements; before RESP3, an array.
func (c *conn) appendSet(n int) {
	if c.resp3 {
		c.out = appendNumber(c.out, '~', int64(n))
		return
	}
	c.out = appendArray(c.out, n)
}

func (c *conn) appendNull() {
	if c.resp3 {
		c.out = append(c.out, "_\r\n"...)
		return
	}
	c.out = append(c.out, "$-1\r\n"...)
}

// appendPairs writes names and values in turn.
func (c *conn) appendPairs(namesAndValues ...string) {
	for _, text := range namesAndValues {
		c.out = appendBulk(c.out, text)
	}
}

func (c *conn) ok() { c.out = append(c.out, "+OK\r\n"...) }

func (c *conn) fail(text string) { c.refuse("ERR", text) }

// refuse replies with an error of a kind, and counts it.
func (c *conn) refuse(kind, text string) {
	c.out = appendError(c.out, kind, text)
	if c.running {
		c.failures++
	} else {
		c.strays++
	}
}

// appendDecision writes the numbers of a decision.
func appendDecision(to []byte, v *policy.Decision) []byte {
	d := &v.Decision
	to = appendBool(appendArray(to, 6), d.Allowed)
	to = appendInt(to, d.Quota)
	if d.Flags&rule.FallbackOpen != 0 { // 0 would mean that nothing is left
		to = appendInt(to, -1)
	} else {
		to = appendInt(to, d.Remaining)
	}
	if d.RetryAfter == slidegate.Never {
		to = appendInt(to, -1)
	} else {
		to = appendInt(to, d.RetryAfter.Microseconds())
	}
	to = appendInt(to, d.ResetAfter.Microseconds())
	return appendInt(to, d.Granted)
}

func appendBool(to []byte, is bool) []byte {
	if is {
		return append(to, ":1\r\n"...)
	}
	return append(to, ":0\r\n"...)
}
