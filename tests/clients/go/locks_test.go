package clients

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func TestAScriptIsSentOnceAndFoundByItsDigest(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		script := redis.NewScript(`
			local value = redis.call('INCRBY', KEYS[1], ARGV[1])
			if value > 10 then return redis.error_reply('FULL ' .. value) end
			return {value, {ok = 'DONE'}, false, 'text'}`)
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		err := script.EvalSha(ctx, client, []string{"n"}, 1).Err()
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			t.Errorf("EVALSHA of an unknown script: %v", err)
		}
		wanted := []interface{}{int64(4), "DONE", nil, "text"}
		same(t, "a script", any(wanted))(script.Run(ctx, client, []string{"n"}, 4).Result())
		same(t, "SCRIPT EXISTS", []bool{true})(script.Exists(ctx, client).Result())
		if err := script.EvalSha(ctx, client, []string{"n"}, 7).Err(); err == nil || err.Error() != "FULL 11" {
			t.Errorf("an error of a script: %v", err)
		}
		reader := redis.NewScript(`return redis.call('GET', KEYS[1])`)
		same(t, "EVAL_RO", any("11"))(reader.RunRO(ctx, client, []string{"n"}).Result())
		if err := script.EvalRO(ctx, client, []string{"n"}, 1).Err(); err == nil {
			t.Error("EVAL_RO wrote")
		}
	})
}

func TestAFunctionIsLoadedAndCalled(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		client.FunctionFlush(ctx)
		code := "#!lua name=ours\nredis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)"
		same(t, "FUNCTION LOAD", "ours")(client.FunctionLoad(ctx, code).Result())
		same(t, "FCALL", any("OK"))(client.FCall(ctx, "put", []string{"k"}, "v").Result())
		same(t, "GET", "v")(client.Get(ctx, "k").Result())
		list, err := client.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: "o*", WithCode: true}).Result()
		if err != nil || len(list) != 1 || list[0].Code != code || list[0].Functions[0].Name != "put" {
			t.Errorf("FUNCTION LIST: %v (error %v)", list, err)
		}
		same(t, "FUNCTION DELETE", "OK")(client.FunctionDelete(ctx, "ours").Result())
	})
}

func TestRedsyncLetsOneInAtATime(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		locks := redsync.New(goredis.NewPool(client))
		counted := 0
		var workers sync.WaitGroup
		for worker := 0; worker < 8; worker++ {
			workers.Add(1)
			go func() {
				defer workers.Done()
				options := []redsync.Option{redsync.WithTries(10_000), redsync.WithRetryDelay(2 * time.Millisecond)}
				mutex := locks.NewMutex("guard", options...)
				for turn := 0; turn < 10; turn++ {
					if err := mutex.LockContext(ctx); err != nil {
						t.Error(err)
						return
					}
					before := counted
					client.Ping(ctx)
					counted = before + 1
					if held, err := mutex.UnlockContext(ctx); !held || err != nil {
						t.Errorf("unlock: %v, %v", held, err)
					}
				}
			}()
		}
		workers.Wait()
		if counted != 80 {
			t.Errorf("counted %d of 80", counted)
		}
		held := locks.NewMutex("guard", redsync.WithExpiry(time.Minute))
		if err := held.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		var taken *redsync.ErrTaken
		if err := locks.NewMutex("guard", redsync.WithTries(1)).LockContext(ctx); !errors.As(err, &taken) {
			t.Errorf("a lock that another holds: %v", err)
		}
		if extended, err := held.ExtendContext(ctx); !extended || err != nil {
			t.Errorf("extend: %v, %v", extended, err)
		}
		client.Set(ctx, "guard", "another's", 0)
		if extended, err := held.ExtendContext(ctx); extended || err == nil {
			t.Errorf("extended what another holds: %v, %v", extended, err)
		}
		if _, err := held.UnlockContext(ctx); err == nil {
			t.Error("released what another holds")
		}
	})
}

func TestRedislockIsObtainedRefreshedAndReleased(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		locker := redislock.New(client)
		lock, err := locker.Obtain(ctx, "guard", 30*time.Second, &redislock.Options{Metadata: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker.Obtain(ctx, "guard", time.Second, nil); !errors.Is(err, redislock.ErrNotObtained) {
			t.Errorf("a lock that is held: %v", err)
		}
		if err := lock.Refresh(ctx, time.Minute, nil); err != nil {
			t.Error(err)
		}
		if left, err := lock.TTL(ctx); err != nil || left < 50*time.Second || left > time.Minute {
			t.Errorf("TTL: %v (error %v)", left, err)
		}
		var waited error
		var waiting sync.WaitGroup
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)}
			_, waited = locker.Obtain(ctx, "guard", time.Second, retry)
		}()
		if err := lock.Release(ctx); err != nil {
			t.Error(err)
		}
		waiting.Wait()
		if waited != nil {
			t.Errorf("the next: %v", waited)
		}
		if err := lock.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
			t.Errorf("released twice: %v", err)
		}
	})
}
