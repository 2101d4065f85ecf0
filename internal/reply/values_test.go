package reply

import (
	"strconv"
	"testing"
)

// Values that have been cut never change, however many are cut after them.
func TestCutValuesNeverChange(t *testing.T) {
	var lines [][]string
	for i := range 3 * linesInBlock {
		v := newValues(1, itemBytes)
		from := len(v.text)
		v.text = strconv.AppendInt(v.text, int64(i), 10)
		lines = append(lines, v.line(v.cut(from)))
		v.putBack()
	}
	for i, line := range lines {
		if len(line) != 1 || line[0] != strconv.Itoa(i) {
			t.Fatalf("value %d: got %q, want it unchanged", i, line)
		}
		if longer := append(line, "more"); &longer[0] == &line[0] {
			t.Fatalf("appending to value %d writes into the block, want a copy", i)
		}
	}
}
