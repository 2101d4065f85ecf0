//go:build !race

package memstore_test

import "testing"

func alone(*testing.T) {}
