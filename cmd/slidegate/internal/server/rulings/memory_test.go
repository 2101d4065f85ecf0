package rulings_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings/rulingstest"
)

func TestInMemory(t *testing.T) {
	keeper := rulings.InMemory()
	rulingstest.Exercise(t, keeper, keeper, nil)
}

// A change is in the file when Apply returns, so a killed process loses nothing.
func TestInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.rulings")
	keeper, err := rulings.InFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []rulings.Ruling{
		{Policy: "p", Key: "a", Kind: rulings.Block, Who: "ann"}, {Policy: "p", Key: "b", Kind: rulings.Limits, Limits: []string{"1/1s"}, Who: "ann"},
		{Policy: "p", Key: "a", Kind: rulings.Clear, Who: "ann"},
	} {
		if err := keeper.Apply(t.Context(), change, nil); err != nil {
			t.Fatal(err)
		}
		again, err := rulings.InFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, version, _ := keeper.Load(t.Context(), -1)
		log, _ := keeper.Log(t.Context(), 10)
		kept, keptVersion, _ := again.Load(t.Context(), -1)
		keptLog, _ := again.Log(t.Context(), 10)
		if !reflect.DeepEqual(kept, all) || keptVersion != version || !reflect.DeepEqual(keptLog, log) || len(log) != int(version) {
			t.Errorf("after %+v: the file has %v, version %d, log %v; want %v, %d, %v", change, kept, keptVersion, keptLog, all, version, log)
		}
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("got leftover files %v, want none", left)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file, which has keys in it, has the mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestBrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.rulings")
	if err := os.WriteFile(path, []byte(`{"version":3,"rul`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rulings.InFile(path); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}
