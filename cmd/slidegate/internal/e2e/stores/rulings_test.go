package stores_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings/rulingstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestRulingsInRedis(t *testing.T) {
	url := "redis://" + redistest.Server(t).Addr()
	rulingstest.Exercise(t, openConnected(t, url, patientOptions()).Rulings, openConnected(t, url, patientOptions()).Rulings, nil)
}

func TestRulingsInRedisCluster(t *testing.T) {
	var addresses []string
	for _, node := range redistest.Cluster(t) {
		addresses = append(addresses, node.Addr())
	}
	keeper := openConnected(t, "redis+cluster://"+strings.Join(addresses, ","), patientOptions()).Rulings
	block := rulings.Ruling{Policy: "p", Key: "a", Kind: rulings.Block, Who: "ann"}
	if err := keeper.Apply(ctx, block, nil); err != nil {
		t.Fatal(err)
	}
	if all, version, err := keeper.Load(ctx, -1); err != nil || len(all) != 1 || version != 1 {
		t.Errorf("got %v, %d, %v; want the ruling", all, version, err)
	}
	if log, err := keeper.Log(ctx, 10); err != nil || len(log) != 1 {
		t.Errorf("the log: got %v, %v; want one change", log, err)
	}
}

func TestRulingsInPostgres(t *testing.T) {
	server := pgtest.Start(t, "fsync = off")
	url := server.URL("slidegate_prefix=my_", "pool_max_conns=4")
	fill := func(all []rulings.Ruling) {
		conn, err := pgx.Connect(ctx, server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		var ids [][]byte
		var texts []string
		for i := range all {
			sum := sha256.Sum256([]byte(all[i].Name()))
			ids, texts = append(ids, sum[:]), append(texts, string(all[i].Text()))
		}
		if _, err := conn.Exec(ctx, "INSERT INTO public.my_rulings SELECT * FROM unnest($1::bytea[], $2::text[])", ids, texts); err != nil {
			t.Fatal(err)
		}
	}
	rulingstest.Exercise(t, openConnected(t, url, patientOptions()).Rulings, openConnected(t, url, patientOptions()).Rulings, fill)
}

// TestRulingsWithoutTables checks that without permission in the URL to create tables there are no rulings, and that the error of a
// change says what is missing.
func TestRulingsWithoutTables(t *testing.T) {
	server := pgtest.Start(t, "fsync = off")
	keeper := openConnected(t, server.URL("slidegate_migrate=false"), patientOptions()).Rulings
	if all, version, err := keeper.Load(ctx, -1); err != nil || len(all) != 0 || version != 0 {
		t.Errorf("got %v, %d, %v; want none", all, version, err)
	}
	err := keeper.Apply(ctx, rulings.Ruling{Policy: "p", Key: "a", Kind: rulings.Block, Who: "ann"}, nil)
	if err == nil || !strings.Contains(err.Error(), "docs/postgres.md") {
		t.Errorf("got %v, want an error that names the SQL of the tables", err)
	}
}
