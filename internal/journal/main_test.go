package journal_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }
