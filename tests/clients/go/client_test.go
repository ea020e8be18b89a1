package clients

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// both runs a test on an empty server in RESP2 and in RESP3.
func both(t *testing.T, test func(t *testing.T, ctx context.Context, client *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("resp%d", protocol), func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol})
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := client.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			test(t, ctx, client)
		})
	}
}

// same fails unless a command answered what was wanted.
func same[T any](t *testing.T, what string, wanted T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: got %v (error %v), wanted %v", what, got, err, wanted)
		}
	}
}

func TestStringsComeBackAsTheyWent(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		same(t, "SET", "OK")(client.Set(ctx, "k", "a\x00b", time.Hour).Result())
		same(t, "GET", "a\x00b")(client.Get(ctx, "k").Result())
		same(t, "INCRBY", int64(42))(client.IncrBy(ctx, "n", 42).Result())
		same(t, "SETNX", false)(client.SetNX(ctx, "n", "x", 0).Result())
		same(t, "MGET", []interface{}{"42", nil})(client.MGet(ctx, "n", "nobody").Result())
		if err := client.Get(ctx, "nobody").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET of a missing key: %v", err)
		}
		if ttl := client.TTL(ctx, "k").Val(); ttl < 59*time.Minute || ttl > time.Hour {
			t.Errorf("TTL: %v", ttl)
		}
	})
}

func TestCollectionsKeepTheirElements(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		same(t, "HSET", int64(2))(client.HSet(ctx, "h", "a", 1, "b", "zwei").Result())
		same(t, "HGETALL", map[string]string{"a": "1", "b": "zwei"})(client.HGetAll(ctx, "h").Result())
		same(t, "RPUSH", int64(3))(client.RPush(ctx, "l", "x", "y", "z").Result())
		same(t, "LRANGE", []string{"x", "y", "z"})(client.LRange(ctx, "l", 0, -1).Result())
		same(t, "SADD", int64(2))(client.SAdd(ctx, "s", "a", "b").Result())
		members := client.SMembers(ctx, "s").Val()
		sort.Strings(members)
		if !reflect.DeepEqual(members, []string{"a", "b"}) {
			t.Errorf("SMEMBERS: %v", members)
		}
		same(t, "ZADD", int64(2))(client.ZAdd(ctx, "z", redis.Z{Score: 2.5, Member: "b"}, redis.Z{Score: 1, Member: "a"}).Result())
		same(t, "ZRANGE", []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}})(client.ZRangeWithScores(ctx, "z", 0, -1).Result())
	})
}

func TestAPipelineAnswersInOrder(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		var replies []*redis.IntCmd
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for number := 0; number < 1000; number++ {
				replies = append(replies, pipe.Incr(ctx, "n"))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for number, reply := range replies {
			if reply.Val() != int64(number+1) {
				t.Fatalf("reply %d is %d", number, reply.Val())
			}
		}
	})
}

func TestAnIteratorSeesEveryKey(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		for number := 0; number < 500; number++ {
			client.Set(ctx, fmt.Sprintf("key%d", number), number, 0)
		}
		seen := map[string]bool{}
		iterator := client.Scan(ctx, 0, "key*", 20).Iterator()
		for iterator.Next(ctx) {
			seen[iterator.Val()] = true
		}
		if err := iterator.Err(); err != nil || len(seen) != 500 {
			t.Errorf("seen %d of 500 keys (error %v)", len(seen), err)
		}
	})
}

func TestAWaitingPopGetsWhatAnotherPushes(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		var got []string
		var waiting sync.WaitGroup
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			got, _ = client.BLPop(ctx, 20*time.Second, "q").Result()
		}()
		time.Sleep(20 * time.Millisecond)
		client.RPush(ctx, "q", "x")
		waiting.Wait()
		if !reflect.DeepEqual(got, []string{"q", "x"}) {
			t.Errorf("BLPOP: %v", got)
		}
		if err := client.BLPop(ctx, time.Second, "nobody").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("BLPOP without anybody: %v", err)
		}
	})
}

func TestErrorsKeepTheirTexts(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		client.Set(ctx, "k", "v", 0)
		wrong := "WRONGTYPE Operation against a key holding the wrong kind of value"
		if err := client.LPush(ctx, "k", 1).Err(); err == nil || err.Error() != wrong {
			t.Errorf("LPUSH on a string: %v", err)
		}
	})
}

func TestManyConnectionsLoseNoIncrement(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		var workers sync.WaitGroup
		for worker := 0; worker < 32; worker++ {
			workers.Add(1)
			go func() {
				defer workers.Done()
				for turn := 0; turn < 100; turn++ {
					client.Incr(ctx, "total")
				}
			}()
		}
		workers.Wait()
		same(t, "GET", "3200")(client.Get(ctx, "total").Result())
	})
}

func TestMessagesComeToSubscribers(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		subscription := client.PSubscribe(ctx, "n*")
		defer subscription.Close()
		if err := subscription.Subscribe(ctx, "news"); err != nil {
			t.Fatal(err)
		}
		for repeat := 0; repeat < 2; repeat++ {
			if _, err := subscription.Receive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for number := 0; number < 100; number++ {
			same(t, "PUBLISH", int64(2))(client.Publish(ctx, "news", number).Result())
		}
		for number := 0; number < 100; number++ {
			for repeat := 0; repeat < 2; repeat++ {
				message, err := subscription.ReceiveMessage(ctx)
				if err != nil || message.Payload != fmt.Sprint(number) {
					t.Fatalf("message %d: %v (error %v)", number, message, err)
				}
			}
		}
		same(t, "PUBSUB CHANNELS", []string{"news"})(client.PubSubChannels(ctx, "*").Result())
		same(t, "PUBSUB NUMPAT", int64(1))(client.PubSubNumPat(ctx).Result())
	})
}
