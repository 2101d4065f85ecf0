package faults_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestTable breaks every store in every way, and prints what each program did.
func TestTable(t *testing.T) {
	if !*all {
		t.Skip("SKIPPED: make long T=faults measures all faults; TestPromises checks the most important ones")
	}
	printed := false
	for _, f := range faults() {
		for _, p := range programs() {
			t.Run(f.store+"/"+f.name+"/"+p.String(), func(t *testing.T) {
				r := measure(t, f, p, *hold)
				if !printed {
					emit(t, heading)
					printed = true
				}
				emit(t, r.markdown())
				for _, l := range r.logged {
					t.Logf("%s %s %s", l.Level, l.Msg, l.Error)
				}
			})
		}
	}
}

const heading = `
| store | fault | program | first fallback | longest wait | by the failure mode: used, fresh, others | admitted of used-up keys | of a fresh key (quota 5) | store_up | /readyz | log | recovered |
|---|---|---|---|---|---|---|---|---|---|---|---|
`

// markdown returns the row as a line of the table.
func (r *row) markdown() string {
	if r.ended != "" {
		return fmt.Sprintf("| %s | %s | %s | ended after %s: %s |\n", r.fault.store, r.fault.name, r.program, seconds(time.Since(r.began)), strings.ReplaceAll(r.ended, "\n", " "))
	}
	recovered := seconds(r.recovered)
	if r.recovered < 0 {
		recovered = "**not in " + patience.String() + "**"
	} else if !r.upAgain {
		recovered += ", but store_up or /readyz is not well"
	}
	if r.failed > 0 {
		recovered += fmt.Sprintf("; %d requests FAILED", r.failed)
	}
	usedAdmitted := "-"
	if r.prepared {
		usedAdmitted = fmt.Sprint(r.usedAdmitted)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %.0f %%, %.0f %%, %.0f %% | %s | %d | %s | %s | %s | %s |\n",
		r.fault.store, r.fault.name, r.program, seconds(r.firstFallback), seconds(r.longest),
		100*r.fallbacks[used], 100*r.fallbacks[fresh], 100*r.fallbacks[others], usedAdmitted, most(r.freshAdmitted),
		r.storeUp, r.ready, r.levels(), recovered)
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "none"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// emit prints text, and appends it to the file of tables.
func emit(t *testing.T, text string) {
	t.Helper()
	fmt.Print(text)
	if *tables == "" {
		return
	}
	file, err := os.OpenFile(*tables, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	testkit.NoError(t, err)
	_, err = file.WriteString(text)
	testkit.NoError(t, err)
	testkit.NoError(t, file.Close())
}
