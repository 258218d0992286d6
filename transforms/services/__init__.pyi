from .kafka_clock import KafkaClock as KafkaClock
from .kafka_topic import KafkaTopic as KafkaTopic
from .kafka_topic import TopicWriter as TopicWriter
from .pubsub_clock import PubSubClock as PubSubClock
from .service_clock import CLOCK_SKEW_US as CLOCK_SKEW_US
from .service_clock import check_clocks as check_clocks
