// What the Go fragments of the pages may use: these imports, and the parameters of the function.
package sample

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"google.golang.org/grpc"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func sample(
	ctx context.Context,
	key, addr, token string,
	shared store.Store,
	limiter *slidegate.Limiter,
	limits *httplimit.Middleware,
	mux *http.ServeMux,
	handler http.Handler,
	w http.ResponseWriter,
	r *http.Request,
	t *testing.T,
) {
}
