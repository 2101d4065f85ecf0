package resp

import (
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// The commands and their arguments are those that were released, or more.
func TestReleasedRESP(t *testing.T) {
	var lines []string
	for _, cmd := range commandTable() {
		lines = append(lines, strings.TrimSpace(strings.ToUpper(cmd.name)+" "+cmd.usage))
	}
	slices.Sort(lines)
	testkit.Released(t, "../../../../../internal/repotest/released/resp.txt", lines)
}
