/*
 * Every limit that is not a setting, by name.
 */
#ifndef CORVO_LIMITS_H
#define CORVO_LIMITS_H

#define LIMIT_BODY_BYTES       (16u << 20) /* one HTTP body */
#define LIMIT_SMALL_BYTES      (16u << 10) /* bodies that always fit */
#define LIMIT_REPLY_AT_ONCE    (64u << 10) /* others wait for so much */
#define LIMIT_ANSWER_RATE      4096ULL     /* bytes/s, over answer_timeout */
#define LIMIT_HEAD_BYTES       (8u << 10)  /* request line and headers */
#define LIMIT_HEAD_ENTRY_BYTES 64          /* each header, cookie, argument */
#define LIMIT_URI_BYTES        4096
#define LIMIT_METHOD_BYTES     32
#define LIMIT_EMPTY_LINES      8     /* before a request line */
#define LIMIT_CHUNK_LINE_BYTES 256   /* the size of a chunk, with extensions */
#define LIMIT_H2_STREAMS       128   /* requests of an HTTP/2 connection */
#define LIMIT_H2_WINDOW        65535 /* bytes of a body not taken yet */
#define LIMIT_JSON_DEPTH       64
#define LIMIT_IGNORED          10   /* members named as ignored */
#define LIMIT_NEAR_NAMES       1000 /* unknown names compared with known ones */
#define LIMIT_REQUEST_ID_BYTES 128  /* of X-Request-Id */
#define LIMIT_NODE_NAME_BYTES  64
#define LIMIT_QUEUE_NAME_BYTES 255
#define LIMIT_WORKER_ID_BYTES  255
#define LIMIT_HOSTNAME_BYTES   255
#define LIMIT_WORKERS          10000  /* known at a time: those seen last */
#define LIMIT_WORKER_IDLE_S    86400  /* forgotten then, when another comes */
#define LIMIT_WORKER_QUEUES    2048   /* bytes of a worker's, as shown */
#define LIMIT_WORKER_JOBS      32     /* of a worker, as shown */
#define LIMIT_HELD_JOBS        100000 /* active ones looked at for that */
#define LIMIT_JOB_ID_BYTES     64
#define LIMIT_TAGS_BYTES       (16u << 10)
#define LIMIT_PROGRESS_BYTES   (16u << 10)
#define LIMIT_CHECKPOINT_BYTES (4u << 20) /* of max_checkpoint_size */
#define LIMIT_RESULT_BYTES     (256u << 10)
#define LIMIT_ERROR_BYTES      (16u << 10)
#define LIMIT_BACKTRACE_BYTES  (64u << 10)
#define LIMIT_ENQUEUE_BATCH    10000 /* jobs in one enqueue/batch */
#define LIMIT_FETCH_QUEUES     256   /* queues in one fetch */
#define LIMIT_FETCH_COUNT      512   /* jobs in one fetch/batch */
#define LIMIT_ACK_BATCH        512
#define LIMIT_HEARTBEAT_JOBS   2048
#define LIMIT_SEARCH_ROWS      1000
#define LIMIT_ATTEMPTS         1000000 /* of max_retries */
#define LIMIT_FETCH_WAIT_S     60
#define LIMIT_LEASE_S          86400
#define LIMIT_MESSAGE_BYTES    (64u << 20) /* one message between processes */
#define LIMIT_SNAPSHOT_PART    (1u << 20)  /* of a file, at a time */
#define LIMIT_JOB_ERRORS       50          /* errors kept per job: the newest */
#define LIMIT_TIMELINE         200   /* events shown with a job: the newest */
#define LIMIT_TAIL_EVENTS      65536 /* events in one answer to viewd */
#define LIMIT_EVENTS_READ      8192  /* of the event log at a time */
#define LIMIT_LIST_TEXTS       256   /* texts in one list of a request */
#define LIMIT_DURATION_S       (36525ULL * 86400) /* in a request: 100 years */
#define LIMIT_MAINTAIN_JOBS    1000 /* jobs one maintenance op may move */
#define LIMIT_ENTRY_JOBS_2     200  /* jobs one entry moves, from level 2 on */
#define LIMIT_ENTRY_BYTES      (16u << 20) /* read and written by one entry */
#define LIMIT_UNIQUE_KEY_BYTES 255
#define LIMIT_GROUP_BYTES      255
#define LIMIT_GROUP_LIMITS     10000 /* groups of a queue with own limits */
#define LIMIT_GROUP_WEIGHT     1000
#define LIMIT_CONCURRENCY      1000000
#define LIMIT_RATE             1000000000
#define LIMIT_DEPENDENCIES     256   /* of one job */
#define LIMIT_REQUEST_DEPS     50000 /* of all jobs of one request */
#define LIMIT_REQUEST_DEPS_2   10000 /* the same from level 2 on */
#define LIMIT_CHAIN_STEPS      100
#define LIMIT_CHAIN_BYTES      (512u << 10) /* payloads and tags of one chain */
#define LIMIT_CALLBACK_BYTES   (256u << 10)
#define LIMIT_BATCH_DEPTH      8 /* batches nested in batches */
#define LIMIT_SCHED_NAME_BYTES 255
#define LIMIT_SCHEDULES        100000
#define LIMIT_SCHEDULE_PAGE    1000 /* schedules in one answer */
#define LIMIT_NEXT_TIMES       100  /* times in one answer */
#define LIMIT_CRON_BYTES       256
#define LIMIT_TIMEZONE_BYTES   64
#define LIMIT_LOG_LINE_BYTES   4096
#define LIMIT_LOG_LINES        1000 /* kept per job: the newest */
#define LIMIT_LOG_PAGE         1000 /* lines in one answer */
#define LIMIT_WAIT_S           60   /* of ?wait= */
#define LIMIT_HTTPD_PROCESSES  64
#define LIMIT_LISTENERS        8     /* addresses of bind */
#define LIMIT_CLIENTS          65536 /* addresses remembered, see clients.h */
#define LIMIT_TRUSTED_PROXIES  64    /* networks of trusted_proxies */
#define LIMIT_QUEUE_PAGE       10000 /* queues in one answer */
#define LIMIT_METRIC_QUEUES    1000  /* queues in metrics and in scale */
#define LIMIT_SEARCH_TEXT      4096  /* bytes of a text to search for */
#define LIMIT_SEARCH_PREFIXES  16    /* different words* in it */
#define LIMIT_SEARCH_PHRASES   128   /* words next to each other in it */
#define LIMIT_JQ_BYTES         4096
#define LIMIT_LONG_SEARCHES    16    /* that wait for their turn */
#define LIMIT_TOTAL            10000 /* matches counted one by one */
#define LIMIT_FULLTEXT_ROWS    500
#define LIMIT_LIST_BYTES       (8u << 20) /* a list of jobs ends there */
#define LIMIT_BULK_GET         1000       /* jobs in one bulk-get */
#define LIMIT_BULK_SYNC        10000  /* jobs a bulk acts on while one waits */
#define LIMIT_BULK_IDS         500000 /* ids in one request */
#define LIMIT_BULK_JOBS        10000000 /* jobs of one bulk operation */
#define LIMIT_BULK_STEP        500      /* jobs of one entry */
#define LIMIT_BULK_PAGE        10000    /* ids in one message and record */
#define LIMIT_BULK_CANARY      1000
#define LIMIT_BULKS            1000  /* operations kept, of any status */
#define LIMIT_BULK_COLLECT_S   3600  /* to name all jobs of an operation */
#define LIMIT_BULK_KEEP_S      86400 /* an ended operation can be read */
#define LIMIT_FILES_MIN        256   /* open files, with which a node works */
#define LIMIT_FILES_OWN        128  /* of these, for links, logs and the like */
#define LIMIT_FILES_STORE      512  /* RocksDB keeps open, where it may */
#define LIMIT_EVENTS_PAGE      1000 /* events in one answer */

/* What waits in corvo-raftd: questions for their answers, and those who wait
 * for queues to drain. */
#define LIMIT_QUESTIONS       16384
#define LIMIT_QUESTIONS_BYTES (32u << 20)
#define LIMIT_DRAIN_WAITS     1024

/* Answers kept for requests that come again, of callers that say nothing. */
#define LIMIT_ANSWERS         65536
#define LIMIT_ANSWERS_BYTES   (32u << 20)
#define LIMIT_ANSWERS_S       120
#define LIMIT_ANSWER_BYTES    (4u << 20) /* one of them */
#define LIMIT_ANSWERS_LOST    64         /* callers whose answers went */
#define LIMIT_EVENT_RETENTION 1000000000000ULL

/* Usage. */
#define LIMIT_USAGE_TOKENS    1000000000 /* of one kind, in one report */
#define LIMIT_USAGE_COST      1000000    /* usd of one report, or price */
#define LIMIT_UNIT_AMOUNT     1000000000 /* of one unit, in one report */
#define LIMIT_UNITS           32         /* names of units */
#define LIMIT_UNIT_NAME_BYTES 64
#define LIMIT_UNITS_BYTES     4096 /* all of a report, as JSON */
#define LIMIT_MODEL_BYTES     128
#define LIMIT_PROVIDER_BYTES  128
#define LIMIT_REPORT_ID_BYTES 64
#define LIMIT_USAGE_TAGS      8
#define LIMIT_USAGE_TAG_BYTES 128   /* names, and values told apart */
#define LIMIT_USAGE_ROWS      10000 /* combinations of names in an hour */
#define LIMIT_USAGE_GROUP_BY  4
#define LIMIT_USAGE_SCAN      500000 /* rows looked at for one answer */
#define LIMIT_USAGE_GROUPS    10000  /* groups in one answer */
#define LIMIT_ZONE_OFFSETS    128
#define LIMIT_PRICES          10000

/* Scores. */
#define LIMIT_SCORES              64 /* of one job */
#define LIMIT_SCORE_NAME_BYTES    64
#define LIMIT_SCORE_BY_BYTES      128
#define LIMIT_SCORE_COMMENT_BYTES 1024
#define LIMIT_SCORE_VALUE         1000000
#define LIMIT_SCORE_ITERATION     1000000

/* Results. */
#define LIMIT_SCHEMA_BYTES 8192

/* Providers. */
#define LIMIT_PROVIDERS            256
#define LIMIT_PROVIDER_SLOTS       10 /* minutes that are looked back at */
#define LIMIT_PROVIDER_ERROR_BYTES 256

/* Budgets. */
#define LIMIT_BUDGETS             10000
#define LIMIT_BUDGET_LIMITS       8 /* of one budget */
#define LIMIT_BUDGET_TAGS         8 /* names of tags that budgets are of */
#define LIMIT_BUDGET_TARGET_BYTES 260
#define LIMIT_BUDGET_SLOTS        60 /* of a window */

/* Push queues. */
#define LIMIT_PUSH_QUEUES        10000
#define LIMIT_PUSH_URL_BYTES     2048
#define LIMIT_PUSH_HEADERS_BYTES 4096
#define LIMIT_PUSH_HEADERS       32
#define LIMIT_PUSH_SECRET_BYTES  256
#define LIMIT_PUSH_CONCURRENCY   10000
#define LIMIT_PUSH_RATE          1000000
#define LIMIT_PUSH_TIMEOUT_S     3600
#define LIMIT_PUSH_PAGE          256 /* queues in one answer to sched */
#define LIMIT_RESPONSE_BYTES     (32u << 10)
#define LIMIT_RESPONSE_BODY      4096 /* of a receiver, kept of an attempt */

/* Agents. */
#define LIMIT_ITERATIONS        1000000 /* of max_iterations */
#define LIMIT_ITERATIONS_KEPT   1000    /* per job: the newest */
#define LIMIT_ITERATION_PAGE    1000    /* in one answer */
#define LIMIT_TRACE_BYTES       (64u << 10)
#define LIMIT_REPLAYS           32         /* of a job that it tells of */
#define LIMIT_CHECKPOINT_INSIDE (4u << 10) /* beside the rest of a job */

/* Approvals. Of all policies together so many places of a payload are looked
 * at, so that no job can make an entry long. */
#define LIMIT_POLICIES          100
#define LIMIT_POLICY_TESTS      64
#define LIMIT_POLICY_LOOKED     (32u << 20) /* bytes, in one request */
#define LIMIT_POLICY_NAME_BYTES 100
#define LIMIT_POLICY_TAG_BYTES  255
#define LIMIT_POLICY_JQ_BYTES   1024
#define LIMIT_POLICY_PRIORITY   1000000
#define LIMIT_DECIDED_BY_BYTES  255
#define LIMIT_COMMENT_BYTES     1024
#define LIMIT_LINK_BYTES        1024
#define LIMIT_LINK_S            (30 * 86400)
#define LIMIT_LINK_PAYLOAD      (16u << 10) /* shown to who has a link */
#define LIMIT_BASE_URL_BYTES    512
#define LIMIT_SALT_BYTES        64
#define LIMIT_TRIAL_JOBS        10000 /* looked at to try a policy */
#define LIMIT_TRIAL_SHOWN       100
#define LIMIT_TRIAL_S           86400

/* Inbound webhooks. All of them fit into one answer. */
#define LIMIT_HOOKS             1000
#define LIMIT_HOOK_NAME_BYTES   100
#define LIMIT_HOOK_PATH_BYTES   512
#define LIMIT_HOOK_MAP_BYTES    2048
#define LIMIT_HOOK_SECRET_BYTES 512
#define LIMIT_HOOK_HEADER_BYTES 64
#define LIMIT_HOOK_TOLERANCE_S  86400 /* a delivery is known for so long */

/* Webhooks: all of them, and what waits for another try, fit into one answer.
 */
#define LIMIT_WEBHOOKS               100
#define LIMIT_WEBHOOK_ID_BYTES       64
#define LIMIT_WEBHOOK_CONCURRENCY    64
#define LIMIT_WEBHOOK_PATTERNS       64  /* of events, of queues */
#define LIMIT_WEBHOOK_TRIES          500 /* that wait, of one webhook */
#define LIMIT_WEBHOOK_LOG            500 /* lines of the log of one */
#define LIMIT_WEBHOOK_REPORT         64  /* deliveries in one report */
#define LIMIT_WEBHOOK_ERROR_BYTES    512
#define LIMIT_WEBHOOK_RESPONSE_BYTES 1024

/* Remote calls. */
#define LIMIT_REFUSED_ITEMS    64  /* of one frame that are told one by one */
#define LIMIT_STREAM_FAILS     512 /* failed attempts in one frame */
#define LIMIT_EVENT_TYPE_BYTES 64
#define LIMIT_SYMBOL_BYTES     512 /* a name somebody asks reflection for */
#define LIMIT_PB_GROUPS        64  /* unknown groups in each other */
/* A packed message unpacks to so many times its bytes, or to so many bytes. */
#define LIMIT_UNPACKED_RATIO 100
#define LIMIT_UNPACKED_BYTES (512u << 10)

/* Nodes of a cluster, with those that are on their way in or out. */
#define LIMIT_MEMBERS       32
#define LIMIT_ADDRESS_BYTES 255
#define LIMIT_VERSION_BYTES 64

/* Connections of other nodes: in their handshake, and with those after it; of
 * one address, too. Callers: those that are served, for each purpose. */
#define LIMIT_PEER_HELLOS    64
#define LIMIT_PEER_HELLOS_IP 16
#define LIMIT_PEER_CONNS     256
#define LIMIT_PEER_CONNS_IP  64
#define LIMIT_PEER_CALLERS   64
#define LIMIT_PEER_ADDRESSES 8 /* of one name, tried in turn */
/* Addresses at which a node without a cluster looks for others. */
#define LIMIT_FOUND 32
/* Nodes that are invited at a time. */
#define LIMIT_INVITES 8

/* Of what is told of a rebuild of the view that failed. */
#define LIMIT_REBUILD_ERROR_BYTES 255

/* Snapshots that failed in a row before /readyz says so. */
#define LIMIT_SNAPSHOT_FAILURES 3

#endif
