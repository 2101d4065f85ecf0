package traffic

import (
	"strings"
	"testing"
)

func TestUnreadableLinesFormat(t *testing.T) {
	for line, want := range map[string]string{
		`{"key":"a"}`:                               "time: t is missing",
		`{"t":null,"key":"a"}`:                      "time: t is missing",
		`{"t":true,"key":"a"}`:                      "time: t must be milliseconds since 1970 or a string",
		`{"t":"yesterday","key":"a"}`:               "time: want a time such as 2006-01-02T15:04:05Z, with a zone, or a number since 1970",
		`{"t":0,"key":"a"}`:                         "time: must be between 1970 and 2245",
		`{"t":-5,"key":"a"}`:                        "time: must be between 1970 and 2245",
		`{"t":0.0009,"key":"a"}`:                    "time: must be between 1970 and 2245",
		`{"t":0.001,"key":"a"}`:                     "",
		`{"t":8690975254740.991,"key":"a"}`:         "", // 2^53 - 1 microseconds less ten years of 366 days
		`{"t":8690975254740.992,"key":"a"}`:         "time: must be between 1970 and 2245",
		`{"t":1}`:                                   "key: key is missing",
		`{"t":1,"key":{"a":1}}`:                     "key: must be a string or a number",
		`{"t":1,"key":"a","cost":"many"}`:           "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":1.5}`:              "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":-1}`:               "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":9007199254740992}`: "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":9007199254740991}`: "",
		`{"t":1,"key":"a","cost":[1]}`:              "cost: must be a string or a number",
		`{"t":1,"key":"a","cost":null}`:             "",
		`{"t":1,"key":"a","cost":2`:                 "JSON: the line ends early",
		`{"t":1,"key":"a","cost":2}}`:               "JSON: invalid JSON at byte 27",
	} {
		r, err := NewReader("log", strings.NewReader(line), Options{Format: "lines"})
		if err != nil {
			t.Fatal(err)
		}
		if _, got := r.take([]byte(line), &Line{}); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
